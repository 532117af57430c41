"""Protobuf schemas for tests: texts, and the descriptor set that a compiler would produce for one, built by hand."""

from __future__ import annotations

from google.protobuf import descriptor_pb2, descriptor_pool, message_factory

ORDER2 = """
syntax = "proto2";
package trade;
message Order {
  optional string a = 1;
  optional int32 n = 2 [default = 42];
  optional double f = 3;
  optional string e = 4;
  repeated int32 l = 5;
  optional int32 z = 6;
  optional Order inner = 7;
  optional Side side = 8;
  repeated Order legs = 9;
  map<string, Order> by = 10;
  optional bytes raw = 11;
  optional uint64 big = 12;
  oneof choice { int32 left = 13; string right = 14; }
  optional bool flag = 15 [default = true];
}
enum Side { BUY = 1; SELL = 2; }
"""
ORDER3 = ORDER2.replace("proto2", "proto3").replace("optional ", "").replace(" [default = 42]", "")
ORDER3 = (
    ORDER3.replace(" [default = true]", "")
    .replace("BUY = 1;", "NONE = 0; BUY = 1;")
    .replace("int32 z", "optional int32 z")
)


def pool_of(files: descriptor_pb2.FileDescriptorSet) -> descriptor_pool.DescriptorPool:
    """Return the types of a set, built by the library alone."""
    pool = descriptor_pool.DescriptorPool()
    for file in files.file:
        pool.AddSerializedFile(file.SerializeToString())
    return pool


def order_set() -> descriptor_pb2.FileDescriptorSet:
    """Return the set that contains ORDER2."""
    of = descriptor_pb2.FieldDescriptorProto
    result = descriptor_pb2.FileDescriptorSet()
    file = result.file.add(name="order.proto", package="trade", syntax="proto2")
    side = file.enum_type.add(name="Side")
    side.value.add(name="BUY", number=1)
    side.value.add(name="SELL", number=2)
    order = file.message_type.add(name="Order")
    rows = [
        ("a", 1, of.TYPE_STRING), ("n", 2, of.TYPE_INT32), ("f", 3, of.TYPE_DOUBLE), ("e", 4, of.TYPE_STRING),
        ("l", 5, of.TYPE_INT32), ("z", 6, of.TYPE_INT32), ("inner", 7, of.TYPE_MESSAGE), ("side", 8, of.TYPE_ENUM),
        ("legs", 9, of.TYPE_MESSAGE), ("by", 10, of.TYPE_MESSAGE), ("raw", 11, of.TYPE_BYTES),
        ("big", 12, of.TYPE_UINT64), ("left", 13, of.TYPE_INT32), ("right", 14, of.TYPE_STRING),
        ("flag", 15, of.TYPE_BOOL),
    ]  # fmt: skip
    types = {"inner": ".trade.Order", "side": ".trade.Side", "legs": ".trade.Order", "by": ".trade.Order.ByEntry"}
    for name, number, kind in rows:
        repeated = name in ("l", "legs", "by")
        field = order.field.add(name=name, number=number, label=3 if repeated else 1, type=kind)
        if name in types:
            field.type_name = types[name]
    order.field[1].default_value = "42"
    order.field[14].default_value = "true"
    for field in order.field[12:14]:
        field.oneof_index = 0
    order.oneof_decl.add(name="choice")
    entry = order.nested_type.add(name="ByEntry")
    entry.options.map_entry = True
    entry.field.add(name="key", number=1, label=1, type=of.TYPE_STRING)
    entry.field.add(name="value", number=2, label=1, type=of.TYPE_MESSAGE, type_name=".trade.Order")
    return result


Order = message_factory.GetMessageClass(pool_of(order_set()).FindMessageTypeByName("trade.Order"))
"""The class of the messages, for making payloads."""
