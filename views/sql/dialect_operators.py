"""Operators and casts that differ among DuckDB, Spark and PostgreSQL: what each engine computed."""

from typing import Final

from tandem.views.sql.dialect_difference import DialectDifference, DialectExample

OPERATOR_DIFFERENCES: Final = (
    DialectDifference(
        ("/",),
        "`a / b` is a DOUBLE of 16 digits, for decimals too; `//` divides integers to an integer",
        (
            DialectExample("7 / 2", "3.5", "3.5", "3"),
            DialectExample("CAST(7.5 AS DECIMAL(4, 2)) / 3", "2.5", "2.500000", "2.5000000000000000"),
            DialectExample("1 / 0", "inf", "error", "error"),
        ),
    ),
    DialectDifference(
        ("//",),
        "only integers are divided to an integer; write `trunc(a / b)` for others",
        (
            DialectExample("-7 // 2", "-3", "-3", "-3", in_spark="-7 DIV 2", in_postgres="-7 / 2"),
            DialectExample("7.5 // 2", "3.75", "3", "3", in_spark="7.5 DIV 2", in_postgres="div(7.5, 2)"),
            DialectExample(
                "CAST(7.5 AS DOUBLE) // 2", "3.75", "error", "3", in_spark="CAST(7.5 AS DOUBLE) DIV 2", in_postgres="div(7.5, 2)"
            ),
        ),
    ),
    DialectDifference(
        ("%", "mod"),
        "integers and decimals agree with Spark and PostgreSQL; `x % 0` of a DOUBLE is `nan`",
        (
            DialectExample("-7 % 3", "-1", "-1", "-1"),
            DialectExample("7.5 % 2", "1.5", "1.5", "1.5"),
            DialectExample("7 % 0", "error", "error", "error"),
            DialectExample("CAST(7.5 AS DOUBLE) % 0", "nan", "error", "error", in_postgres="7.5 % 0"),
        ),
    ),
    DialectDifference(("^",), "it is the power; `xor(a, b)` is exclusive or", (DialectExample("2 ^ 3", "8.0", "1", "8"),)),
    DialectDifference(
        ("<<",),
        "bits that leave the type are an error; CAST AS BIGINT first",
        (
            DialectExample("1 << 2", "4", "4", "4"),
            DialectExample("1 << 33", "error", "2", "2"),
        ),
    ),
    DialectDifference(
        (">>",),
        "a shift by 32 or more bits of an INTEGER is 0",
        (
            DialectExample("-5 >> 1", "-3", "-3", "-3"),
            DialectExample("-1 >> 40", "0", "-1", "-1"),
        ),
    ),
    DialectDifference(
        ("LIKE",),
        "a backslash in a pattern is an ordinary character; write `LIKE ... ESCAPE '\\'` to escape with it",
        (
            DialectExample("'abc' LIKE 'A%'", "false", "false", "false"),
            DialectExample("'a%b' LIKE 'a\\%b'", "false", "true", "true"),
        ),
    ),
    DialectDifference(
        ("SIMILAR TO", "regexp_full_match"),
        "SIMILAR TO takes a regular expression, not SQL's pattern",
        (
            DialectExample("'abc' SIMILAR TO 'a.c'", "true", "true", "false", in_spark="'abc' RLIKE '^(a.c)$'"),
            DialectExample("'abc' SIMILAR TO 'a%'", "false", "false", "true", in_spark="'abc' RLIKE '^(a%)$'"),
        ),
    ),
    DialectDifference(
        ("CAST AS INTEGER",),
        "the nearest integer, halves of a decimal away from zero, of a DOUBLE to the even one; `trunc(x)` cuts first",
        (
            DialectExample("CAST(2.7 AS INTEGER)", "3", "2", "3"),
            DialectExample("CAST(2.5 AS INTEGER)", "3", "2", "3"),
            DialectExample(
                "CAST(CAST(2.5 AS DOUBLE) AS INTEGER)",
                "2",
                "2",
                "2",
                in_postgres="CAST(CAST(2.5 AS DOUBLE PRECISION) AS INTEGER)",
            ),
            DialectExample("CAST('2.7' AS INTEGER)", "3", "error", "error"),
            DialectExample("CAST('1e3' AS INTEGER)", "1000", "error", "error"),
        ),
    ),
    DialectDifference(
        ("CAST AS VARCHAR",),
        "a DOUBLE has another text in each engine; CAST it AS DECIMAL(18, 3) first",
        (
            DialectExample(
                "CAST(CAST(1 AS DOUBLE) AS VARCHAR)",
                "1.0",
                "1.0",
                "1",
                in_spark="CAST(CAST(1 AS DOUBLE) AS STRING)",
                in_postgres="CAST(CAST(1 AS DOUBLE PRECISION) AS VARCHAR)",
            ),
            DialectExample(
                "CAST(CAST(1e20 AS DOUBLE) AS VARCHAR)",
                "1e+20",
                "1.0E20",
                "1e+20",
                in_spark="CAST(CAST(1e20 AS DOUBLE) AS STRING)",
                in_postgres="CAST(CAST(1e20 AS DOUBLE PRECISION) AS VARCHAR)",
            ),
            DialectExample("CAST('abc' AS VARCHAR(2))", "abc", "abc", "ab"),
        ),
    ),
    DialectDifference(
        ("CAST AS BOOLEAN",),
        "the text `on` is not true",
        (
            DialectExample("CAST('yes' AS BOOLEAN)", "true", "true", "true"),
            DialectExample("CAST('on' AS BOOLEAN)", "error", "error", "true"),
        ),
    ),
    DialectDifference(
        ("[]",),
        "the first element of a list, and the first character of a text, is number 1",
        (
            DialectExample("['a', 'b'][1]", "a", "b", "a", in_spark="array('a', 'b')[1]", in_postgres="(ARRAY['a', 'b'])[1]"),
            DialectExample(
                "['a', 'b'][0]", "NULL", "a", "NULL", in_spark="array('a', 'b')[0]", in_postgres="(ARRAY['a', 'b'])[0]"
            ),
            DialectExample("'abc'[1]", "a", "a", "a", in_spark="substr('abc', 1, 1)", in_postgres="substr('abc', 1, 1)"),
        ),
    ),
)
