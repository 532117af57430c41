"""One defect, one error: consequences of an error are not reported as errors.

Each row changes some lines of the control file, from the last to the first: the lines ``first`` to ``last`` (no line
if ``last`` is the one before ``first``) are replaced by the text.
"""

from __future__ import annotations

from pathlib import Path

import pytest

from sowctl.config.validate import validate_config

CONTROL = Path(__file__).parent / "bad" / "00-control-good.xml"

Edits = list[tuple[int, int, str]]
DEFECTS: list[tuple[str, Edits]] = [
    (
        "S001",
        [
            (
                91,
                91,
                (
                    "<Transport><Name>x</Name><Type>tcp</Type><InetAddr>1</InetAddr><Protocol>amps"
                    "</Protocol></Transport>"
                    "</AMPSConfig>"
                ),
            )
        ],
    ),
    ("S001", [(15, 15, "<Level>info</Level><Key>/a</Key>")]),
    ("S002", [(32, 31, "<Expirashun>1s</Expirashun>")]),
    ("S002", [(37, 37, "<Projektion>"), (40, 40, "</Projektion>")]),
    ("S002", [(41, 41, "<Groupping>"), (43, 43, "</Groupping>")]),
    ("S002", [(67, 67, "<JournalDir>./journals</JournalDir>")]),
    ("S002", [(30, 30, "<key>/orderId</key>")]),
    ("S002", [(36, 36, "<UnderlyingTopics>orders</UnderlyingTopics>")]),
    ("S002", [(3, 3, "<name>control</name>")]),
    ("S002", [(26, 26, "<Sow>"), (65, 65, "</Sow>")]),
    ("S002", [(66, 66, "<TransactionLogs>"), (73, 73, "</TransactionLogs>")]),
    ("S003", [(91, 90, "<SOW/>")]),
    ("S009", [(28, 28, "<Name></Name>")]),
    ("S009", [(29, 29, "<MessageType></MessageType>")]),
    ("S005", [(6, 6, "")]),
    ("S006", [(7, 7, "")]),
    ("S007", [(8, 8, "")]),
    ("S008", [(9, 9, "")]),
    ("S020", [(28, 28, "")]),
    ("S021", [(29, 29, "")]),
    ("S034", [(30, 30, "<Key>orderId</Key>")]),
    ("S037", [(41, 43, "")]),
    (
        "S038",
        [
            (
                65,
                65,
                (
                    "<View><Name>v2</Name><MessageType>json</MessageType><UnderlyingTopic>"
                    "<Join>[orders]./a = [totals]./b = 1</Join></UnderlyingTopic><Projection>"
                    "<Field>[orders]./a AS /a</Field></Projection><Grouping><Field>[orders]./a</Field>"
                    "</Grouping></View>\n"
                    "</SOW>"
                ),
            )
        ],
    ),
    ("S039", [(55, 55, "")]),
    ("S054", [(91, 90, "<Modules><Module><Library>x.so</Library></Module></Modules>")]),
    ("S054", [(91, 90, "<Modules><Module><Name>x</Name></Module></Modules>")]),
    ("S055", [(90, 90, "<Action><Do><Module>amps-action-do-nothing</Module></Do></Action></Actions>")]),
    ("S057", [(79, 79, "")]),
    ("S058", [(79, 79, "<Every>25:00</Every>")]),
    ("S058", [(79, 79, "<Every>10:00 Z</Every>")]),
    ("S063", [(70, 70, "<Name>orders(</Name>")]),
    ("S063", [(62, 62, "<UnderlyingTopic>*orders</UnderlyingTopic>"), (64, 63, "")]),
    ("S064", [(67, 67, "")]),
    ("S065", [(69, 68, "<Topic><Name>x</Name></Topic>")]),
    ("S066", [(91, 90, "<UserDefinedFunctions><Function><Name>F</Name></Function></UserDefinedFunctions>")]),
    ("S075", [(30, 31, "<Key>/orderId\n<FileName>./sow/%n.sow</FileName></Key>")]),
    ("S075", [(28, 29, "<Name>orders\n<MessageType>json</MessageType></Name>")]),
    ("S075", [(14, 15, "<Protocol>stdout\n<Level>info</Level></Protocol>")]),
    (
        "F001",
        [(32, 31, ("<Expiration>1d</Expiration><History><Window>1d</Window><Granularity>1s</Granularity></History>"))],
    ),
    ("F002", [(47, 47, "<Pattern>^/regional/</Pattern><Enrichment><Field>/a AS /b</Field></Enrichment>")]),
    (
        "F004",
        [
            (26, 26, "<Modules><Module><Name>x</Name><Library>x.so</Library></Module></Modules><SOW>"),
            (32, 31, "<KeyGenerator><Module>x</Module></KeyGenerator>"),
        ],
    ),
    (
        "F005",
        [
            (
                65,
                65,
                (
                    "<Topic><Name>bin</Name><MessageType>binary</MessageType><Key>/a</Key><FileName>x"
                    "</FileName></Topic>\n"
                    "</SOW>"
                ),
            )
        ],
    ),
    ("F007", [(64, 63, "<Priority>/p</Priority><BarrierExpression>/b = 1</BarrierExpression>")]),
    ("F010", [(64, 63, "<InitialOwner>x</InitialOwner>")]),
    ("F011", [(62, 62, "<UnderlyingTopic>ord.*</UnderlyingTopic>")]),
    ("F012", [(63, 63, "\n<Semantics>at-most-once</Semantics><FairnessModel>fast</FairnessModel>")]),
    ("F014", [(55, 55, "<UnderlyingTopic>regional</UnderlyingTopic>")]),
    ("F015", [(32, 31, "<Preprocessing><Field>/a OF PREVIOUS AS /b</Field></Preprocessing>")]),
    ("F016", [(32, 31, "<Enrichment><Field>[orders]./a AS /b</Field></Enrichment>")]),
    ("F017", [(57, 57, "<Filter>SUM(/qty) &gt; 0</Filter>")]),
    ("F018", [(57, 57, "<Filter>UNIX_TIMESTAMP() &gt; 0</Filter>")]),
    ("F019", [(32, 31, "<Enrichment><Field>VALUE_LOOKUP('a',/b) AS /c</Field></Enrichment>")]),
    ("F019", [(39, 39, "<Field>VALUE_LOOKUP('a',/b) AS /total</Field>")]),
    (
        "F020",
        [
            (35, 36, ("<MessageType>binary</MessageType>\n<UnderlyingTopic>[json].[orders]</UnderlyingTopic>")),
            (38, 39, ("<Field>[json].[orders]./customer</Field>\n<Field>SUM([json].[orders]./qty) AS /total</Field>")),
            (42, 42, "<Field>[json].[orders]./customer</Field>"),
        ],
    ),
    ("F020", [(35, 35, "<MessageType>binary</MessageType>")]),
    (
        "F021",
        [
            (
                65,
                65,
                (
                    "<Topic><Name>bin</Name><MessageType>binary</MessageType><FileName>x</FileName>"
                    "<Enrichment><Field>/a AS /b</Field></Enrichment></Topic>\n"
                    "</SOW>"
                ),
            )
        ],
    ),
    (
        "F024",
        [
            (
                11,
                11,
                (
                    "<Transport><Name>r1</Name><Type>amps-replication</Type><InetAddr>1</InetAddr>"
                    "</Transport><Transport><Name>r2</Name><Type>amps-replication</Type><InetAddr>2"
                    "</InetAddr></Transport>\n"
                    "</Transports>"
                ),
            )
        ],
    ),
    (
        "F027",
        [
            (
                90,
                90,
                (
                    "<Action><On><Module>amps-action-on-startup</Module></On><Do>"
                    "<Module>amps-action-do-execute-event</Module></Do></Action>\n"
                    "</Actions>"
                ),
            )
        ],
    ),
    (
        "F028",
        [
            (
                90,
                90,
                (
                    "<Action><On><Module>amps-action-on-startup</Module></On><Do>"
                    "<Module>amps-action-do-compact-sow</Module><Options><Topic>orders</Topic></Options>"
                    "</Do></Action>\n"
                    "</Actions>"
                ),
            )
        ],
    ),
    ("F030", [(69, 68, "<JournalArchiveDirectory>./journals</JournalArchiveDirectory>")]),
    (
        "F031",
        [
            (
                90,
                90,
                (
                    "<Action><On><Module>amps-action-on-startup</Module></On><Do>"
                    "<Module>amps-action-do-archive-journal</Module><Options><Age>1d</Age></Options></Do>"
                    "</Action>\n"
                    "</Actions>"
                ),
            )
        ],
    ),
    ("F033", [(32, 31, "<History><Window>0s</Window><Granularity>0s</Granularity></History>")]),
    (
        "F034",
        [
            (
                65,
                65,
                (
                    "<View><Name>v2</Name><MessageType>json</MessageType><UnderlyingTopic>orders"
                    "<Join>[orders]./a = [totals]./b</Join></UnderlyingTopic><Projection>"
                    "<Field>[orders]./a AS /a</Field></Projection><Grouping><Field>[orders]./a</Field>"
                    "</Grouping></View>\n"
                    "</SOW>"
                ),
            )
        ],
    ),
    ("F035", [(42, 42, "<Field>/a + /b</Field>")]),
    (
        "F036",
        [
            (
                65,
                65,
                (
                    "<View><Name>v2</Name><MessageType>json</MessageType><UnderlyingTopic>"
                    "<Join>[orders]./a = [totals]./b</Join></UnderlyingTopic><Projection><Field>/a"
                    "</Field></Projection><Grouping><Field>[orders]./a</Field></Grouping></View>\n"
                    "</SOW>"
                ),
            )
        ],
    ),
    ("F038", [(39, 39, "<Field>SUM(/qty) AS /customer</Field>")]),
    ("R001", [(29, 29, "<MessageType>jason</MessageType>")]),
    ("R002", [(30, 30, "<KeyGenerator><Module>gone</Module></KeyGenerator>"), (32, 31, "")]),
    ("R003", [(9, 9, "<Protocol>ampz</Protocol>")]),
    ("R004", [(55, 55, "<UnderlyingTopic>Orders</UnderlyingTopic>")]),
    (
        "R005",
        [
            (
                33,
                32,
                (
                    "<ConflatedTopic><Name>early</Name><MessageType>json</MessageType>"
                    "<UnderlyingTopic>totals</UnderlyingTopic>"
                    "</ConflatedTopic>"
                ),
            )
        ],
    ),
    ("R007", [(54, 54, "<MessageType>fix</MessageType>")]),
    ("R009", [(61, 61, "<MessageType>fix</MessageType>")]),
    ("R010", [(91, 90, "<Admin><InetAddr>8085</InetAddr><SQLTransport>any-tcp</SQLTransport></Admin>")]),
    (
        "R011",
        [
            (
                90,
                90,
                (
                    "<Action><On><Module>amps-action-on-startup</Module></On><Do>"
                    "<Module>amps-action-do-delete-sow</Module><Options><Topic>order</Topic>"
                    "<MessageType>json</MessageType><Filter>1=1</Filter></Options></Do></Action>\n"
                    "</Actions>"
                ),
            )
        ],
    ),
    (
        "R013",
        [
            (
                11,
                11,
                (
                    "<Transport><Name>any-tcp</Name><Type>tcp</Type><InetAddr>1</InetAddr><Protocol>amps"
                    "</Protocol></Transport>\n"
                    "</Transports>"
                ),
            )
        ],
    ),
    (
        "R017",
        [
            (
                65,
                65,
                (
                    "<View><Name>v2</Name><MessageType>json</MessageType><UnderlyingTopic>"
                    "<Join>[orders]./a = [gone]./b</Join></UnderlyingTopic><Projection>"
                    "<Field>[orders]./a AS /a</Field></Projection><Grouping><Field>[orders]./a</Field>"
                    "</Grouping></View>\n"
                    "</SOW>"
                ),
            )
        ],
    ),
    (
        "R018",
        [
            (
                65,
                65,
                (
                    "<View><Name>v2</Name><MessageType>json</MessageType><UnderlyingTopic>orders"
                    "</UnderlyingTopic><Projection><Field>/a</Field><Field>[gone]./b AS /b</Field>"
                    "</Projection><Grouping><Field>/a</Field></Grouping></View>\n"
                    "</SOW>"
                ),
            )
        ],
    ),
    (
        "R021",
        [
            (
                65,
                65,
                (
                    "<Topic><Name>x</Name><MessageType>json</MessageType><FileName>./sow/orders.json.sow"
                    "</FileName></Topic>\n"
                    "</SOW>"
                ),
            )
        ],
    ),
    ("R024", [(91, 90, "<Admin><FileName>./sow/orders.json.sow</FileName></Admin>")]),
    ("R026", [(64, 63, "<DefaultPublishTarget>else</DefaultPublishTarget>")]),
    (
        "R027",
        [
            (
                65,
                65,
                (
                    "<View><Name>v2</Name><MessageType>json</MessageType><UnderlyingTopic>v3"
                    "</UnderlyingTopic><Projection><Field>/a</Field></Projection><Grouping><Field>/a"
                    "</Field></Grouping></View><View><Name>v3</Name><MessageType>json</MessageType>"
                    "<UnderlyingTopic>v2</UnderlyingTopic><Projection><Field>/a</Field></Projection>"
                    "<Grouping><Field>/a</Field></Grouping></View>\n"
                    "</SOW>"
                ),
            )
        ],
    ),
    (
        "R033",
        [
            (
                65,
                65,
                (
                    "<View><Name>v2</Name><MessageType>json</MessageType><UnderlyingTopic>"
                    "<Join>[orders]./a = [orders]./b</Join></UnderlyingTopic><Projection>"
                    "<Field>[orders]./a AS /a</Field></Projection><Grouping><Field>[orders]./a</Field>"
                    "</Grouping></View>\n"
                    "</SOW>"
                ),
            )
        ],
    ),
    ("S050", [(22, 24, "</MessageType>")]),
    (
        "S051",
        [
            (
                25,
                25,
                ("<MessageType><Name>p</Name><Module>protobuf</Module><Type>a.B</Type></MessageType></MessageTypes>"),
            )
        ],
    ),
    ("S035", [(57, 57, "<Filter>NOSUCH(/qty) &gt; 0</Filter>")]),
    ("S036", [(39, 39, "<Field>SUM(/qty)</Field>")]),
    ("S056", [(77, 77, "<Module>amps-action-on-scheduled</Module>")]),
    ("D019", [(84, 84, "<Module>amps-action-do-remove-journals</Module>")]),
    ("S062", [(14, 14, "")]),
    ("S014", [(9, 9, "<Protocol>amps</Protocol><VerifyClient>true</VerifyClient>")]),
    (
        "S013",
        [
            (
                11,
                11,
                ("<Transport><Name>u</Name><Type>amps-unix</Type><Protocol>amps</Protocol></Transport>\n</Transports>"),
            )
        ],
    ),
]


@pytest.mark.parametrize(("rule", "edits"), DEFECTS, ids=[rule for rule, _ in DEFECTS])
def test_one_defect_is_one_error(tmp_path: Path, rule: str, edits: Edits) -> None:
    lines = CONTROL.read_text(encoding="utf-8").split("\n")
    for first, last, text in reversed(edits):
        lines[first - 1 : last] = [text] if text else []
    path = tmp_path / "config.xml"
    path.write_text("\n".join(lines), encoding="utf-8")
    found = validate_config(path, environment={})
    assert {finding.id for finding in found} == {rule}, found
