"""Message type ``fix``: tag=value fields whose tags are numbers (``sowctl-messages(7)``, fix).

Reading accepts any tag, so that a message with a foreign field can be read; only numeric ones are written. The session
rules of FIX are neither checked nor computed: body length and checksum are ordinary fields.
"""

from __future__ import annotations

from collections.abc import Mapping
from functools import cache
from typing import TYPE_CHECKING

from sowctl.messages.base import MAX_MESSAGE_BYTES
from sowctl.messages.tagged.tagvalue import TagValueType

if TYPE_CHECKING:
    from sowctl.messages.definition import TypeDefinition

_TAG_NAMES_TEXT = """
1 Account|2 AdvId|3 AdvRefID|4 AdvSide|5 AdvTransType|6 AvgPx|7 BeginSeqNo|8 BeginString|9 BodyLength|10 CheckSum
11 ClOrdID|12 Commission|13 CommType|14 CumQty|15 Currency|16 EndSeqNo|17 ExecID|18 ExecInst|19 ExecRefID
20 ExecTransType|21 HandlInst|22 SecurityIDSource|23 IOIID|25 IOIQltyInd|26 IOIRefID|27 IOIQty|28 IOITransType
29 LastCapacity|30 LastMkt|31 LastPx|32 LastQty|33 NoLinesOfText|34 MsgSeqNum|35 MsgType|36 NewSeqNo|37 OrderID
38 OrderQty|39 OrdStatus|40 OrdType|41 OrigClOrdID|42 OrigTime|43 PossDupFlag|44 Price|45 RefSeqNum|48 SecurityID
49 SenderCompID|50 SenderSubID|52 SendingTime|53 Quantity|54 Side|55 Symbol|56 TargetCompID|57 TargetSubID|58 Text
59 TimeInForce|60 TransactTime|61 Urgency|62 ValidUntilTime|63 SettlType|64 SettlDate|65 SymbolSfx|66 ListID
67 ListSeqNo|68 TotNoOrders|69 ListExecInst|70 AllocID|71 AllocTransType|72 RefAllocID|73 NoOrders|74 AvgPxPrecision
75 TradeDate|77 PositionEffect|78 NoAllocs|79 AllocAccount|80 AllocQty|81 ProcessCode|82 NoRpts|83 RptSeq|84 CxlQty
85 NoDlvyInst|87 AllocStatus|88 AllocRejCode|89 Signature|90 SecureDataLen|91 SecureData|93 SignatureLength|94 EmailType
95 RawDataLength|96 RawData|97 PossResend|98 EncryptMethod|99 StopPx|100 ExDestination|102 CxlRejReason
103 OrdRejReason|104 IOIQualifier|106 Issuer|107 SecurityDesc|108 HeartBtInt|110 MinQty|111 MaxFloor|112 TestReqID
113 ReportToExch|114 LocateReqd|115 OnBehalfOfCompID|116 OnBehalfOfSubID|117 QuoteID|118 NetMoney|119 SettlCurrAmt
120 SettlCurrency|121 ForexReq|122 OrigSendingTime|123 GapFillFlag|124 NoExecs|126 ExpireTime|127 DKReason
128 DeliverToCompID|129 DeliverToSubID|130 IOINaturalFlag|131 QuoteReqID|132 BidPx|133 OfferPx|134 BidSize
135 OfferSize|136 NoMiscFees|137 MiscFeeAmt|138 MiscFeeCurr|139 MiscFeeType|140 PrevClosePx|141 ResetSeqNumFlag
142 SenderLocationID|143 TargetLocationID|144 OnBehalfOfLocationID|145 DeliverToLocationID|146 NoRelatedSym|147 Subject
148 Headline|149 URLLink|150 ExecType|151 LeavesQty|152 CashOrderQty|153 AllocAvgPx|154 AllocNetMoney
155 SettlCurrFxRate|156 SettlCurrFxRateCalc|157 NumDaysInterest|158 AccruedInterestRate|159 AccruedInterestAmt
160 SettlInstMode|161 AllocText|162 SettlInstID|163 SettlInstTransType|164 EmailThreadID|165 SettlInstSource
167 SecurityType|168 EffectiveTime|169 StandInstDbType|170 StandInstDbName|171 StandInstDbID|172 SettlDeliveryType
188 BidSpotRate|189 BidForwardPoints|190 OfferSpotRate|191 OfferForwardPoints|192 OrderQty2|193 SettlDate2
194 LastSpotRate|195 LastForwardPoints|196 AllocLinkID|197 AllocLinkType|198 SecondaryOrderID|199 NoIOIQualifiers
200 MaturityMonthYear|201 PutOrCall|202 StrikePrice|203 CoveredOrUncovered|206 OptAttribute|207 SecurityExchange
208 NotifyBrokerOfCredit|209 AllocHandlInst|210 MaxShow|211 PegOffsetValue|212 XmlDataLen|213 XmlData
214 SettlInstRefID|215 NoRoutingIDs|216 RoutingType|217 RoutingID|218 Spread|220 BenchmarkCurveCurrency
221 BenchmarkCurveName|222 BenchmarkCurvePoint|223 CouponRate|224 CouponPaymentDate|225 IssueDate|226 RepurchaseTerm
227 RepurchaseRate|228 Factor|229 TradeOriginationDate|230 ExDate|231 ContractMultiplier|232 NoStipulations
233 StipulationType|234 StipulationValue|235 YieldType|236 Yield|237 TotalTakedown|238 Concession|240 RedemptionDate
262 MDReqID|263 SubscriptionRequestType|264 MarketDepth|265 MDUpdateType|266 AggregatedBook|267 NoMDEntryTypes
268 NoMDEntries|269 MDEntryType|270 MDEntryPx|271 MDEntrySize|272 MDEntryDate|273 MDEntryTime|274 TickDirection
275 MDMkt|276 QuoteCondition|277 TradeCondition|278 MDEntryID|279 MDUpdateAction|280 MDEntryRefID|281 MDReqRejReason
282 MDEntryOriginator|283 LocationID|284 DeskID|285 DeleteReason|286 OpenCloseSettlFlag|287 SellerDays
288 MDEntryBuyer|289 MDEntrySeller|290 MDEntryPositionNo|291 FinancialStatus|292 CorporateAction|293 DefBidSize
294 DefOfferSize|295 NoQuoteEntries|296 NoQuoteSets|297 QuoteStatus|298 QuoteCancelType|299 QuoteEntryID
300 QuoteRejectReason|301 QuoteResponseLevel|302 QuoteSetID|303 QuoteRequestType|304 TotNoQuoteEntries
305 UnderlyingSecurityIDSource|306 UnderlyingIssuer|307 UnderlyingSecurityDesc|308 UnderlyingSecurityExchange
309 UnderlyingSecurityID|310 UnderlyingSecurityType|311 UnderlyingSymbol|312 UnderlyingSymbolSfx
313 UnderlyingMaturityMonthYear|315 UnderlyingPutOrCall|316 UnderlyingStrikePrice|317 UnderlyingOptAttribute
318 UnderlyingCurrency|320 SecurityReqID|321 SecurityRequestType|322 SecurityResponseID|323 SecurityResponseType
324 SecurityStatusReqID|325 UnsolicitedIndicator|326 SecurityTradingStatus|327 HaltReason|328 InViewOfCommon
329 DueToRelated|330 BuyVolume|331 SellVolume|332 HighPx|333 LowPx|334 Adjustment|335 TradSesReqID
336 TradingSessionID|337 ContraTrader|338 TradSesMethod|339 TradSesMode|340 TradSesStatus|341 TradSesStartTime
342 TradSesOpenTime|343 TradSesPreCloseTime|344 TradSesCloseTime|345 TradSesEndTime|346 NumberOfOrders
347 MessageEncoding|348 EncodedIssuerLen|349 EncodedIssuer|350 EncodedSecurityDescLen|351 EncodedSecurityDesc
354 EncodedTextLen|355 EncodedText|356 EncodedSubjectLen|357 EncodedSubject|358 EncodedHeadlineLen|359 EncodedHeadline
366 AllocPrice|367 QuoteSetValidUntilTime|368 QuoteEntryRejectReason|369 LastMsgSeqNumProcessed|371 RefTagID
372 RefMsgType|373 SessionRejectReason|374 BidRequestTransType|375 ContraBroker|376 ComplianceID|377 SolicitedFlag
378 ExecRestatementReason|379 BusinessRejectRefID|380 BusinessRejectReason|381 GrossTradeAmt|382 NoContraBrokers
383 MaxMessageSize|384 NoMsgTypes|385 MsgDirection|386 NoTradingSessions|387 TotalVolumeTraded|388 DiscretionInst
389 DiscretionOffsetValue|390 BidID|391 ClientBidID|392 ListName|393 TotNoRelatedSym|394 BidType|395 NumTickets
421 Country|422 TotNoStrikes|423 PriceType|424 DayOrderQty|425 DayCumQty|426 DayAvgPx|427 GTBookingInst|428 NoStrikes
429 ListStatusType|430 NetGrossInd|431 ListOrderStatus|432 ExpireDate|433 ListExecInstType|434 CxlRejResponseTo
435 UnderlyingCouponRate|436 UnderlyingContractMultiplier|437 ContraTradeQty|438 ContraTradeTime
442 MultiLegReportingType|443 StrikeTime|444 ListStatusText|447 PartyIDSource|448 PartyID|451 NetChgPrevDay
452 PartyRole|453 NoPartyIDs|454 NoSecurityAltID|455 SecurityAltID|456 SecurityAltIDSource|460 Product|461 CFICode
464 TestMessageIndicator|466 BookingRefID|467 IndividualAllocID|468 RoundingDirection|469 RoundingModulus
470 CountryOfIssue|483 TransBkdTime|516 OrderPercent|518 NoContAmts|519 ContAmtType|520 ContAmtValue|521 ContAmtCurr
523 PartySubID|524 NestedPartyID|525 NestedPartyIDSource|526 SecondaryClOrdID|527 SecondaryExecID|528 OrderCapacity
529 OrderRestrictions|530 MassCancelRequestType|531 MassCancelResponse|532 MassCancelRejectReason
533 TotalAffectedOrders|534 NoAffectedOrders|535 AffectedOrderID|537 QuoteType|538 NestedPartyRole
539 NoNestedPartyIDs|541 MaturityDate|544 CashMargin|546 Scope|547 MDImplicitDelete|548 CrossID|549 CrossType
550 CrossPrioritization|551 OrigCrossID|552 NoSides|553 Username|554 Password|555 NoLegs|556 LegCurrency
559 SecurityListRequestType|560 SecurityRequestResult|561 RoundLot|562 MinTradeVol|564 LegPositionEffect|566 LegPrice
568 TradeRequestID|569 TradeRequestType|570 PreviouslyReported|571 TradeReportID|572 TradeReportRefID|573 MatchStatus
574 MatchType|575 OddLot|576 NoClearingInstructions|577 ClearingInstruction|578 TradeInputSource|579 TradeInputDevice
581 AccountType|582 CustOrderCapacity|583 ClOrdLinkID|584 MassStatusReqID|585 MassStatusReqType|586 OrigOrdModTime
587 LegSettlType|588 LegSettlDate|589 DayBookingInst|590 BookingUnit|591 PreallocMethod|600 LegSymbol|601 LegSymbolSfx
602 LegSecurityID|603 LegSecurityIDSource|608 LegCFICode|609 LegSecurityType|610 LegMaturityMonthYear
611 LegMaturityDate|612 LegStrikePrice|616 LegSecurityExchange|620 LegSecurityDesc|623 LegRatioQty|624 LegSide
625 TradingSessionSubID|626 AllocType|627 NoHops|628 HopCompID|629 HopSendingTime|630 HopRefID|631 MidPx|632 BidYield
633 MidYield|634 OfferYield|635 ClearingFeeIndicator|636 WorkingIndicator|637 LegLastPx|638 PriorityIndicator
639 PriceImprovement|640 Price2|644 RFQReqID|645 MktBidPx|646 MktOfferPx|647 MinBidSize|648 MinOfferSize
649 QuoteStatusReqID|650 LegalConfirm|654 LegRefID|658 QuoteRequestRejectReason|660 AcctIDSource|693 QuoteRespID
694 QuoteRespType|702 NoPositions|703 PosType|704 LongQty|705 ShortQty|707 PosAmtType|708 PosAmt|710 PosReqID
711 NoUnderlyings|715 ClearingBusinessDate|730 SettlPrice|731 SettlPriceType|762 SecuritySubType|790 OrdStatusReqID
797 CopyMsgIndicator|802 NoPartySubIDs|803 PartySubIDType|847 TargetStrategy|848 TargetStrategyParameters
849 ParticipationRate|851 LastLiquidityInd|854 QtyType|856 TradeReportType|880 TrdMatchID|1128 ApplVerID
1129 CstmApplVerID|1137 DefaultApplVerID
"""
"""Names of the common tags for output with ``--fix-names`` (``sowctl-messages(7)``, fix).

Numbers and names are those of the field dictionary of FIX 4.4 published by the FIX Trading Community, and of FIXT
1.1 above 1000; if 4.2 has another name for a number, the later one is used.
"""


class FixType(TagValueType):
    """FIX messages; SOH separates fields unless a definition says otherwise."""

    kind = "fix"

    def __init__(self, max_message: int = MAX_MESSAGE_BYTES, *, definition: TypeDefinition | None = None) -> None:
        super().__init__(max_message, definition=definition)
        self._named = definition is not None and definition.tag_names

    def find_tag_names(self) -> Mapping[bytes, str]:
        """Those of the standard's common tags, if the definition requests them."""
        return _index_tag_names() if self._named else {}

    def find_named_tag(self, name: str) -> bytes | None:
        """Those of the standard's common tags, whether or not this definition shows names."""
        return _index_named_tags().get(name)

    def can_write_tag(self, tag: bytes) -> bool:
        """Tags of digits."""
        return tag.isdigit() and super().can_write_tag(tag)


@cache
def _index_tag_names() -> dict[bytes, str]:
    """The name of each tag, by its digits."""
    entries = _TAG_NAMES_TEXT.strip().replace("\n", "|").split("|")
    return {number.encode(): name for number, name in map(str.split, entries)}


@cache
def _index_named_tags() -> dict[str, bytes]:
    """The digits of each tag, by its name."""
    return {name: tag for tag, name in _index_tag_names().items()}
