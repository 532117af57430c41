"""LALR(1) tables, made from grammar.lark by tables.py; not to be edited by hand.

RULES: left side, number of parts, alias ("" hands the only part on). STATES: per state, what a token or a left side
leads to: a state, or -1 - rule to reduce. STARTS: first and last state per kind of text.
"""

# fmt: off
RULES: tuple[tuple[str, int, str], ...] = \
    (("affix", 1, ""), ("affix", 1, ""), ("affixes", 1, ""), ("affixes", 1, "one_affix"), ("affixes", 1, "one_affix"),
    ("and_chain", 3, "chain_start"), ("and_chain", 3, "chain_more"), ("conjunction", 1, ""), ("conjunction", 1,
    "conjunction"), ("direction", 1, ""), ("direction", 1, ""), ("expr", 1, ""), ("expr", 1, "disjunction"),
    ("expression", 1, ""), ("field", 3, "field_as"), ("field", 5, "field_hints"), ("field", 1, "field_alone"),
    ("grouping", 1, "grouping_start"), ("grouping", 3, "grouping_more"), ("hint", 1, ""), ("hint", 1, ""), ("hints", 1,
    "items_start"), ("hints", 3, "items_more"), ("identifier", 1, "identifier"), ("identifier", 3, "identifier_of"),
    ("identifier", 3, "identifier_of"), ("items", 1, "items_start"), ("items", 3, "items_more"), ("list", 3, "listed"),
    ("name", 1, ""), ("name", 1, ""), ("negation", 1, ""), ("negation", 2, "negation"), ("or_chain", 3, "chain_start"),
    ("or_chain", 3, "chain_more"), ("order_by", 1, "items_start"), ("order_by", 3, "items_more"), ("order_key", 1,
    "order_key"), ("order_key", 2, "order_key"), ("order_key", 2, "order_key"), ("order_key", 3, "order_key"),
    ("pattern", 1, "pattern"), ("pattern", 1, "pattern"), ("predicate", 1, ""), ("predicate", 3, "compare"),
    ("predicate", 3, "is_what"), ("predicate", 3, "is_what"), ("predicate", 4, "is_not"), ("predicate", 4, "is_not"),
    ("predicate", 3, "not_null"), ("predicate", 3, "like"), ("predicate", 4, "not_like"), ("predicate", 3, "in_list"),
    ("predicate", 4, "not_in_list"), ("predicate", 5, "between"), ("predicate", 6, "not_between"), ("predicate", 4,
    "affix"), ("predicate", 5, "not_affix"), ("primary", 1, ""), ("primary", 1, "number"), ("primary", 1, "string"),
    ("primary", 1, "string"), ("primary", 1, "constant"), ("primary", 1, "constant"), ("primary", 1, "constant"),
    ("primary", 1, "constant"), ("primary", 3, "parentheses"), ("primary", 3, "call_empty"), ("primary", 4, "call"),
    ("product", 1, ""), ("product", 1, "arithmetic"), ("product_chain", 3, "chain_start"), ("product_chain", 3,
    "chain_more"), ("projected", 3, "field_as"), ("projected", 1, "field_alone"), ("projection", 1, "items_start"),
    ("projection", 3, "items_more"), ("sum", 1, ""), ("sum", 1, "arithmetic"), ("sum_chain", 3, "chain_start"),
    ("sum_chain", 3, "chain_more"), ("unary", 1, ""), ("unary", 2, "unary"))

STATES: tuple[dict[str, int], ...] = \
    ({"FALSE": 1, "FIELD": 2, "IF": 6, "LPAR": 7, "NAME": 8, "NAN": 9, "NOT": 10, "NULL": 11, "NUMBER": 12, "RAW": 13,
    "SIGN": 14, "STRING": 15, "TRUE": 16, "and_chain": 21, "conjunction": 49, "expr": 99, "expression": 100,
    "identifier": 17, "name": 18, "negation": 52, "or_chain": 59, "predicate": 24, "primary": 25, "product": 26,
    "product_chain": 29, "sum": 35, "sum_chain": 41, "unary": 32}, {"END": -64, "AND": -64, "AS": -64, "BEGINS": -64,
    "BETWEEN": -64, "COMMA": -64, "COMPARE": -64, "ENDS": -64, "IN": -64, "IS": -64, "LIKE": -64, "NOT": -64, "OR": -64,
    "RPAR": -64, "SIGN": -64, "TIMES": -64}, {"END": -24, "AND": -24, "AS": -24, "BEGINS": -24, "BETWEEN": -24, "COMMA":
    -24, "COMPARE": -24, "ENDS": -24, "IN": -24, "IS": -24, "LIKE": -24, "NOT": -24, "OF": 3, "OR": -24, "RPAR": -24,
    "SIGN": -24, "TIMES": -24}, {"CURRENT": 4, "PREVIOUS": 5}, {"END": -25, "AND": -25, "AS": -25, "BEGINS": -25,
    "BETWEEN": -25, "COMMA": -25, "COMPARE": -25, "ENDS": -25, "IN": -25, "IS": -25, "LIKE": -25, "NOT": -25, "OR": -25,
    "RPAR": -25, "SIGN": -25, "TIMES": -25}, {"END": -26, "AND": -26, "AS": -26, "BEGINS": -26, "BETWEEN": -26, "COMMA":
    -26, "COMPARE": -26, "ENDS": -26, "IN": -26, "IS": -26, "LIKE": -26, "NOT": -26, "OR": -26, "RPAR": -26, "SIGN":
    -26, "TIMES": -26}, {"LPAR": -31}, {"FALSE": 1, "FIELD": 2, "IF": 6, "LPAR": 7, "NAME": 8, "NAN": 9, "NOT": 10,
    "NULL": 11, "NUMBER": 12, "RAW": 13, "SIGN": 14, "STRING": 15, "TRUE": 16, "and_chain": 21, "conjunction": 49,
    "expr": 97, "identifier": 17, "name": 18, "negation": 52, "or_chain": 59, "predicate": 24, "primary": 25, "product":
    26, "product_chain": 29, "sum": 35, "sum_chain": 41, "unary": 32}, {"LPAR": -30}, {"END": -66, "AND": -66, "AS":
    -66, "BEGINS": -66, "BETWEEN": -66, "COMMA": -66, "COMPARE": -66, "ENDS": -66, "IN": -66, "IS": -66, "LIKE": -66,
    "NOT": -66, "OR": -66, "RPAR": -66, "SIGN": -66, "TIMES": -66}, {"FALSE": 1, "FIELD": 2, "IF": 6, "LPAR": 7, "NAME":
    8, "NAN": 9, "NOT": 10, "NULL": 11, "NUMBER": 12, "RAW": 13, "SIGN": 14, "STRING": 15, "TRUE": 16, "identifier": 17,
    "name": 18, "negation": 96, "predicate": 24, "primary": 25, "product": 26, "product_chain": 29, "sum": 35,
    "sum_chain": 41, "unary": 32}, {"END": -65, "AND": -65, "AS": -65, "BEGINS": -65, "BETWEEN": -65, "COMMA": -65,
    "COMPARE": -65, "ENDS": -65, "IN": -65, "IS": -65, "LIKE": -65, "NOT": -65, "OR": -65, "RPAR": -65, "SIGN": -65,
    "TIMES": -65}, {"END": -60, "AND": -60, "AS": -60, "BEGINS": -60, "BETWEEN": -60, "COMMA": -60, "COMPARE": -60,
    "ENDS": -60, "IN": -60, "IS": -60, "LIKE": -60, "NOT": -60, "OR": -60, "RPAR": -60, "SIGN": -60, "TIMES": -60},
    {"END": -62, "AND": -62, "AS": -62, "BEGINS": -62, "BETWEEN": -62, "COMMA": -62, "COMPARE": -62, "ENDS": -62, "IN":
    -62, "IS": -62, "LIKE": -62, "NOT": -62, "OR": -62, "RPAR": -62, "SIGN": -62, "TIMES": -62}, {"FALSE": 1, "FIELD":
    2, "IF": 6, "LPAR": 7, "NAME": 8, "NAN": 9, "NULL": 11, "NUMBER": 12, "RAW": 13, "SIGN": 14, "STRING": 15, "TRUE":
    16, "identifier": 17, "name": 18, "primary": 25, "unary": 95}, {"END": -61, "AND": -61, "AS": -61, "BEGINS": -61,
    "BETWEEN": -61, "COMMA": -61, "COMPARE": -61, "ENDS": -61, "IN": -61, "IS": -61, "LIKE": -61, "NOT": -61, "OR": -61,
    "RPAR": -61, "SIGN": -61, "TIMES": -61}, {"END": -63, "AND": -63, "AS": -63, "BEGINS": -63, "BETWEEN": -63, "COMMA":
    -63, "COMPARE": -63, "ENDS": -63, "IN": -63, "IS": -63, "LIKE": -63, "NOT": -63, "OR": -63, "RPAR": -63, "SIGN":
    -63, "TIMES": -63}, {"END": -59, "AND": -59, "AS": -59, "BEGINS": -59, "BETWEEN": -59, "COMMA": -59, "COMPARE": -59,
    "ENDS": -59, "IN": -59, "IS": -59, "LIKE": -59, "NOT": -59, "OR": -59, "RPAR": -59, "SIGN": -59, "TIMES": -59},
    {"LPAR": 19}, {"FALSE": 1, "FIELD": 2, "IF": 6, "LPAR": 7, "NAME": 8, "NAN": 9, "NOT": 10, "NULL": 11, "NUMBER": 12,
    "RAW": 13, "RPAR": 20, "SIGN": 14, "STRING": 15, "TRUE": 16, "and_chain": 21, "conjunction": 49, "expr": 55,
    "identifier": 17, "items": 93, "name": 18, "negation": 52, "or_chain": 59, "predicate": 24, "primary": 25,
    "product": 26, "product_chain": 29, "sum": 35, "sum_chain": 41, "unary": 32}, {"END": -68, "AND": -68, "AS": -68,
    "BEGINS": -68, "BETWEEN": -68, "COMMA": -68, "COMPARE": -68, "ENDS": -68, "IN": -68, "IS": -68, "LIKE": -68, "NOT":
    -68, "OR": -68, "RPAR": -68, "SIGN": -68, "TIMES": -68}, {"END": -9, "AND": 22, "AS": -9, "COMMA": -9, "OR": -9,
    "RPAR": -9}, {"FALSE": 1, "FIELD": 2, "IF": 6, "LPAR": 7, "NAME": 8, "NAN": 9, "NOT": 10, "NULL": 11, "NUMBER": 12,
    "RAW": 13, "SIGN": 14, "STRING": 15, "TRUE": 16, "identifier": 17, "name": 18, "negation": 23, "predicate": 24,
    "primary": 25, "product": 26, "product_chain": 29, "sum": 35, "sum_chain": 41, "unary": 32}, {"END": -7, "AND": -7,
    "AS": -7, "COMMA": -7, "OR": -7, "RPAR": -7}, {"END": -32, "AND": -32, "AS": -32, "COMMA": -32, "OR": -32, "RPAR":
    -32}, {"END": -82, "AND": -82, "AS": -82, "BEGINS": -82, "BETWEEN": -82, "COMMA": -82, "COMPARE": -82, "ENDS": -82,
    "IN": -82, "IS": -82, "LIKE": -82, "NOT": -82, "OR": -82, "RPAR": -82, "SIGN": -82, "TIMES": -82}, {"END": -78,
    "AND": -78, "AS": -78, "BEGINS": -78, "BETWEEN": -78, "COMMA": -78, "COMPARE": -78, "ENDS": -78, "IN": -78, "IS":
    -78, "LIKE": -78, "NOT": -78, "OR": -78, "RPAR": -78, "SIGN": 27}, {"FALSE": 1, "FIELD": 2, "IF": 6, "LPAR": 7,
    "NAME": 8, "NAN": 9, "NULL": 11, "NUMBER": 12, "RAW": 13, "SIGN": 14, "STRING": 15, "TRUE": 16, "identifier": 17,
    "name": 18, "primary": 25, "product": 28, "product_chain": 29, "unary": 32}, {"END": -80, "AND": -80, "AS": -80,
    "BEGINS": -80, "BETWEEN": -80, "COMMA": -80, "COMPARE": -80, "ENDS": -80, "IN": -80, "IS": -80, "LIKE": -80, "NOT":
    -80, "OR": -80, "RPAR": -80, "SIGN": -80}, {"END": -71, "AND": -71, "AS": -71, "BEGINS": -71, "BETWEEN": -71,
    "COMMA": -71, "COMPARE": -71, "ENDS": -71, "IN": -71, "IS": -71, "LIKE": -71, "NOT": -71, "OR": -71, "RPAR": -71,
    "SIGN": -71, "TIMES": 30}, {"FALSE": 1, "FIELD": 2, "IF": 6, "LPAR": 7, "NAME": 8, "NAN": 9, "NULL": 11, "NUMBER":
    12, "RAW": 13, "SIGN": 14, "STRING": 15, "TRUE": 16, "identifier": 17, "name": 18, "primary": 25, "unary": 31},
    {"END": -73, "AND": -73, "AS": -73, "BEGINS": -73, "BETWEEN": -73, "COMMA": -73, "COMPARE": -73, "ENDS": -73, "IN":
    -73, "IS": -73, "LIKE": -73, "NOT": -73, "OR": -73, "RPAR": -73, "SIGN": -73, "TIMES": -73}, {"END": -70, "AND":
    -70, "AS": -70, "BEGINS": -70, "BETWEEN": -70, "COMMA": -70, "COMPARE": -70, "ENDS": -70, "IN": -70, "IS": -70,
    "LIKE": -70, "NOT": -70, "OR": -70, "RPAR": -70, "SIGN": -70, "TIMES": 33}, {"FALSE": 1, "FIELD": 2, "IF": 6,
    "LPAR": 7, "NAME": 8, "NAN": 9, "NULL": 11, "NUMBER": 12, "RAW": 13, "SIGN": 14, "STRING": 15, "TRUE": 16,
    "identifier": 17, "name": 18, "primary": 25, "unary": 34}, {"END": -72, "AND": -72, "AS": -72, "BEGINS": -72,
    "BETWEEN": -72, "COMMA": -72, "COMPARE": -72, "ENDS": -72, "IN": -72, "IS": -72, "LIKE": -72, "NOT": -72, "OR": -72,
    "RPAR": -72, "SIGN": -72, "TIMES": -72}, {"END": -44, "AND": -44, "AS": -44, "BEGINS": 36, "BETWEEN": 37, "COMMA":
    -44, "COMPARE": 44, "ENDS": 46, "IN": 47, "IS": 64, "LIKE": 70, "NOT": 74, "OR": -44, "RPAR": -44, "affix": 90},
    {"WITH": -1}, {"FALSE": 1, "FIELD": 2, "IF": 6, "LPAR": 7, "NAME": 8, "NAN": 9, "NULL": 11, "NUMBER": 12, "RAW": 13,
    "SIGN": 14, "STRING": 15, "TRUE": 16, "identifier": 17, "name": 18, "primary": 25, "product": 26, "product_chain":
    29, "sum": 38, "sum_chain": 41, "unary": 32}, {"AND": 39}, {"FALSE": 1, "FIELD": 2, "IF": 6, "LPAR": 7, "NAME": 8,
    "NAN": 9, "NULL": 11, "NUMBER": 12, "RAW": 13, "SIGN": 14, "STRING": 15, "TRUE": 16, "identifier": 17, "name": 18,
    "primary": 25, "product": 26, "product_chain": 29, "sum": 40, "sum_chain": 41, "unary": 32}, {"END": -55, "AND":
    -55, "AS": -55, "COMMA": -55, "OR": -55, "RPAR": -55}, {"END": -79, "AND": -79, "AS": -79, "BEGINS": -79, "BETWEEN":
    -79, "COMMA": -79, "COMPARE": -79, "ENDS": -79, "IN": -79, "IS": -79, "LIKE": -79, "NOT": -79, "OR": -79, "RPAR":
    -79, "SIGN": 42}, {"FALSE": 1, "FIELD": 2, "IF": 6, "LPAR": 7, "NAME": 8, "NAN": 9, "NULL": 11, "NUMBER": 12, "RAW":
    13, "SIGN": 14, "STRING": 15, "TRUE": 16, "identifier": 17, "name": 18, "primary": 25, "product": 43,
    "product_chain": 29, "unary": 32}, {"END": -81, "AND": -81, "AS": -81, "BEGINS": -81, "BETWEEN": -81, "COMMA": -81,
    "COMPARE": -81, "ENDS": -81, "IN": -81, "IS": -81, "LIKE": -81, "NOT": -81, "OR": -81, "RPAR": -81, "SIGN": -81},
    {"FALSE": 1, "FIELD": 2, "IF": 6, "LPAR": 7, "NAME": 8, "NAN": 9, "NULL": 11, "NUMBER": 12, "RAW": 13, "SIGN": 14,
    "STRING": 15, "TRUE": 16, "identifier": 17, "name": 18, "primary": 25, "product": 26, "product_chain": 29, "sum":
    45, "sum_chain": 41, "unary": 32}, {"END": -45, "AND": -45, "AS": -45, "COMMA": -45, "OR": -45, "RPAR": -45},
    {"WITH": -2}, {"LPAR": 48, "list": 63}, {"FALSE": 1, "FIELD": 2, "IF": 6, "LPAR": 7, "NAME": 8, "NAN": 9, "NOT": 10,
    "NULL": 11, "NUMBER": 12, "RAW": 13, "SIGN": 14, "STRING": 15, "TRUE": 16, "and_chain": 21, "conjunction": 49,
    "expr": 55, "identifier": 17, "items": 56, "name": 18, "negation": 52, "or_chain": 59, "predicate": 24, "primary":
    25, "product": 26, "product_chain": 29, "sum": 35, "sum_chain": 41, "unary": 32}, {"END": -12, "AS": -12, "COMMA":
    -12, "OR": 50, "RPAR": -12}, {"FALSE": 1, "FIELD": 2, "IF": 6, "LPAR": 7, "NAME": 8, "NAN": 9, "NOT": 10, "NULL":
    11, "NUMBER": 12, "RAW": 13, "SIGN": 14, "STRING": 15, "TRUE": 16, "and_chain": 21, "conjunction": 51, "identifier":
    17, "name": 18, "negation": 52, "predicate": 24, "primary": 25, "product": 26, "product_chain": 29, "sum": 35,
    "sum_chain": 41, "unary": 32}, {"END": -34, "AS": -34, "COMMA": -34, "OR": -34, "RPAR": -34}, {"END": -8, "AND": 53,
    "AS": -8, "COMMA": -8, "OR": -8, "RPAR": -8}, {"FALSE": 1, "FIELD": 2, "IF": 6, "LPAR": 7, "NAME": 8, "NAN": 9,
    "NOT": 10, "NULL": 11, "NUMBER": 12, "RAW": 13, "SIGN": 14, "STRING": 15, "TRUE": 16, "identifier": 17, "name": 18,
    "negation": 54, "predicate": 24, "primary": 25, "product": 26, "product_chain": 29, "sum": 35, "sum_chain": 41,
    "unary": 32}, {"END": -6, "AND": -6, "AS": -6, "COMMA": -6, "OR": -6, "RPAR": -6}, {"COMMA": -27, "RPAR": -27},
    {"COMMA": 57, "RPAR": 62}, {"FALSE": 1, "FIELD": 2, "IF": 6, "LPAR": 7, "NAME": 8, "NAN": 9, "NOT": 10, "NULL": 11,
    "NUMBER": 12, "RAW": 13, "SIGN": 14, "STRING": 15, "TRUE": 16, "and_chain": 21, "conjunction": 49, "expr": 58,
    "identifier": 17, "name": 18, "negation": 52, "or_chain": 59, "predicate": 24, "primary": 25, "product": 26,
    "product_chain": 29, "sum": 35, "sum_chain": 41, "unary": 32}, {"COMMA": -28, "RPAR": -28}, {"END": -13, "AS": -13,
    "COMMA": -13, "OR": 60, "RPAR": -13}, {"FALSE": 1, "FIELD": 2, "IF": 6, "LPAR": 7, "NAME": 8, "NAN": 9, "NOT": 10,
    "NULL": 11, "NUMBER": 12, "RAW": 13, "SIGN": 14, "STRING": 15, "TRUE": 16, "and_chain": 21, "conjunction": 61,
    "identifier": 17, "name": 18, "negation": 52, "predicate": 24, "primary": 25, "product": 26, "product_chain": 29,
    "sum": 35, "sum_chain": 41, "unary": 32}, {"END": -35, "AS": -35, "COMMA": -35, "OR": -35, "RPAR": -35}, {"END":
    -29, "AND": -29, "AS": -29, "COMMA": -29, "OR": -29, "RPAR": -29}, {"END": -53, "AND": -53, "AS": -53, "COMMA": -53,
    "OR": -53, "RPAR": -53}, {"NAN": 65, "NOT": 66, "NULL": 69}, {"END": -47, "AND": -47, "AS": -47, "COMMA": -47, "OR":
    -47, "RPAR": -47}, {"NAN": 67, "NULL": 68}, {"END": -49, "AND": -49, "AS": -49, "COMMA": -49, "OR": -49, "RPAR":
    -49}, {"END": -48, "AND": -48, "AS": -48, "COMMA": -48, "OR": -48, "RPAR": -48}, {"END": -46, "AND": -46, "AS": -46,
    "COMMA": -46, "OR": -46, "RPAR": -46}, {"RAW": 71, "STRING": 72, "pattern": 73}, {"END": -43, "AND": -43, "AS": -43,
    "COMMA": -43, "OR": -43, "RPAR": -43}, {"END": -42, "AND": -42, "AS": -42, "COMMA": -42, "OR": -42, "RPAR": -42},
    {"END": -51, "AND": -51, "AS": -51, "COMMA": -51, "OR": -51, "RPAR": -51}, {"BEGINS": 36, "BETWEEN": 75, "ENDS": 46,
    "IN": 79, "LIKE": 81, "NULL": 83, "affix": 84}, {"FALSE": 1, "FIELD": 2, "IF": 6, "LPAR": 7, "NAME": 8, "NAN": 9,
    "NULL": 11, "NUMBER": 12, "RAW": 13, "SIGN": 14, "STRING": 15, "TRUE": 16, "identifier": 17, "name": 18, "primary":
    25, "product": 26, "product_chain": 29, "sum": 76, "sum_chain": 41, "unary": 32}, {"AND": 77}, {"FALSE": 1, "FIELD":
    2, "IF": 6, "LPAR": 7, "NAME": 8, "NAN": 9, "NULL": 11, "NUMBER": 12, "RAW": 13, "SIGN": 14, "STRING": 15, "TRUE":
    16, "identifier": 17, "name": 18, "primary": 25, "product": 26, "product_chain": 29, "sum": 78, "sum_chain": 41,
    "unary": 32}, {"END": -56, "AND": -56, "AS": -56, "COMMA": -56, "OR": -56, "RPAR": -56}, {"LPAR": 48, "list": 80},
    {"END": -54, "AND": -54, "AS": -54, "COMMA": -54, "OR": -54, "RPAR": -54}, {"RAW": 71, "STRING": 72, "pattern": 82},
    {"END": -52, "AND": -52, "AS": -52, "COMMA": -52, "OR": -52, "RPAR": -52}, {"END": -50, "AND": -50, "AS": -50,
    "COMMA": -50, "OR": -50, "RPAR": -50}, {"WITH": 85}, {"LPAR": 48, "RAW": 86, "STRING": 87, "affixes": 88, "list":
    89}, {"END": -5, "AND": -5, "AS": -5, "COMMA": -5, "OR": -5, "RPAR": -5}, {"END": -4, "AND": -4, "AS": -4, "COMMA":
    -4, "OR": -4, "RPAR": -4}, {"END": -58, "AND": -58, "AS": -58, "COMMA": -58, "OR": -58, "RPAR": -58}, {"END": -3,
    "AND": -3, "AS": -3, "COMMA": -3, "OR": -3, "RPAR": -3}, {"WITH": 91}, {"LPAR": 48, "RAW": 86, "STRING": 87,
    "affixes": 92, "list": 89}, {"END": -57, "AND": -57, "AS": -57, "COMMA": -57, "OR": -57, "RPAR": -57}, {"COMMA": 57,
    "RPAR": 94}, {"END": -69, "AND": -69, "AS": -69, "BEGINS": -69, "BETWEEN": -69, "COMMA": -69, "COMPARE": -69,
    "ENDS": -69, "IN": -69, "IS": -69, "LIKE": -69, "NOT": -69, "OR": -69, "RPAR": -69, "SIGN": -69, "TIMES": -69},
    {"END": -83, "AND": -83, "AS": -83, "BEGINS": -83, "BETWEEN": -83, "COMMA": -83, "COMPARE": -83, "ENDS": -83, "IN":
    -83, "IS": -83, "LIKE": -83, "NOT": -83, "OR": -83, "RPAR": -83, "SIGN": -83, "TIMES": -83}, {"END": -33, "AND":
    -33, "AS": -33, "COMMA": -33, "OR": -33, "RPAR": -33}, {"RPAR": 98}, {"END": -67, "AND": -67, "AS": -67, "BEGINS":
    -67, "BETWEEN": -67, "COMMA": -67, "COMPARE": -67, "ENDS": -67, "IN": -67, "IS": -67, "LIKE": -67, "NOT": -67, "OR":
    -67, "RPAR": -67, "SIGN": -67, "TIMES": -67}, {"END": -14}, {}, {"FALSE": 1, "FIELD": 2, "IF": 6, "LPAR": 7, "NAME":
    8, "NAN": 9, "NOT": 10, "NULL": 11, "NUMBER": 12, "RAW": 13, "SIGN": 14, "STRING": 15, "TRUE": 16, "and_chain": 21,
    "conjunction": 49, "expr": 102, "field": 112, "identifier": 17, "name": 18, "negation": 52, "or_chain": 59,
    "predicate": 24, "primary": 25, "product": 26, "product_chain": 29, "sum": 35, "sum_chain": 41, "unary": 32},
    {"END": -17, "AS": 103}, {"FIELD": 104}, {"END": -15, "HINT": 105}, {"OPTIONAL": 106, "SET_CURRENT": 107, "hint":
    108, "hints": 109}, {"END": -20, "COMMA": -20}, {"END": -21, "COMMA": -21}, {"END": -22, "COMMA": -22}, {"END": -16,
    "COMMA": 110}, {"OPTIONAL": 106, "SET_CURRENT": 107, "hint": 111}, {"END": -23, "COMMA": -23}, {}, {"FALSE": 1,
    "FIELD": 2, "IF": 6, "LPAR": 7, "NAME": 8, "NAN": 9, "NOT": 10, "NULL": 11, "NUMBER": 12, "RAW": 13, "SIGN": 14,
    "STRING": 15, "TRUE": 16, "and_chain": 21, "conjunction": 49, "expr": 114, "identifier": 17, "name": 18, "negation":
    52, "or_chain": 59, "predicate": 24, "primary": 25, "product": 26, "product_chain": 29, "projected": 117,
    "projection": 118, "sum": 35, "sum_chain": 41, "unary": 32}, {"END": -75, "AS": 115, "COMMA": -75}, {"FIELD": 116},
    {"END": -74, "COMMA": -74}, {"END": -76, "COMMA": -76}, {"COMMA": 119}, {"FALSE": 1, "FIELD": 2, "IF": 6, "LPAR": 7,
    "NAME": 8, "NAN": 9, "NOT": 10, "NULL": 11, "NUMBER": 12, "RAW": 13, "SIGN": 14, "STRING": 15, "TRUE": 16,
    "and_chain": 21, "conjunction": 49, "expr": 114, "identifier": 17, "name": 18, "negation": 52, "or_chain": 59,
    "predicate": 24, "primary": 25, "product": 26, "product_chain": 29, "projected": 120, "sum": 35, "sum_chain": 41,
    "unary": 32}, {"END": -77, "COMMA": -77}, {"FIELD": 122, "grouping": 123}, {"END": -18, "COMMA": -18}, {"COMMA":
    124}, {"FIELD": 125}, {"END": -19, "COMMA": -19}, {"FIELD": 127, "order_by": 133, "order_key": 136}, {"END": -38,
    "ASC": 128, "COMMA": -38, "DESC": 129, "TEXT": 130, "direction": 131}, {"END": -10, "COMMA": -10, "TEXT": -10},
    {"END": -11, "COMMA": -11, "TEXT": -11}, {"END": -40, "COMMA": -40}, {"END": -39, "COMMA": -39, "TEXT": 132},
    {"END": -41, "COMMA": -41}, {"COMMA": 134}, {"FIELD": 127, "order_key": 135}, {"END": -37, "COMMA": -37}, {"END":
    -36, "COMMA": -36})

STARTS: dict[str, tuple[int, int]] = \
    {"expression": (0, 100), "field": (101, 112), "projection": (113, 118), "grouping": (121, 123), "order_by": (126,
    133)}
