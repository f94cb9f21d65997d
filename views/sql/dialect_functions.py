"""Functions that differ among DuckDB, Spark and PostgreSQL: what each engine computed."""

from typing import Final

from tandem.views.sql.dialect_difference import DialectDifference, DialectExample

FUNCTION_DIFFERENCES: Final = (
    DialectDifference(
        ("array_contains", "list_contains", "list_has"),
        "it is never NULL for a list",
        (
            DialectExample(
                "array_contains([1, NULL], 2)",
                "false",
                "NULL",
                "NULL",
                in_spark="array_contains(array(1, NULL), 2)",
                in_postgres="2 = ANY (ARRAY[1, NULL])",
            ),
        ),
    ),
    DialectDifference(
        ("array_distinct", "list_distinct"),
        "NULLs are left out",
        (
            DialectExample(
                "array_distinct([1, 1, NULL])",
                "[1]",
                "[1, null]",
                "none",
                in_spark="array_distinct(array(1, 1, NULL))",
                in_postgres="array_distinct(ARRAY[1, 1, NULL])",
            ),
        ),
    ),
    DialectDifference(
        ("array_position", "list_position", "list_indexof"),
        "an element that is missing is at NULL",
        (
            DialectExample(
                "array_position([1, 2], 2)",
                "2",
                "2",
                "2",
                in_spark="array_position(array(1, 2), 2)",
                in_postgres="array_position(ARRAY[1, 2], 2)",
            ),
            DialectExample(
                "array_position([1, 2], 5)",
                "NULL",
                "0",
                "NULL",
                in_spark="array_position(array(1, 2), 5)",
                in_postgres="array_position(ARRAY[1, 2], 5)",
            ),
        ),
    ),
    DialectDifference(
        ("bit_count",),
        "a negative INTEGER has 32 bits",
        (
            DialectExample("bit_count(7)", "3", "3", "3", in_postgres="bit_count(7::bit(32))"),
            DialectExample("bit_count(-1)", "32", "64", "32", in_postgres="bit_count((-1)::bit(32))"),
        ),
    ),
    DialectDifference(("chr",), "any code point, not modulo 256", (DialectExample("chr(8364)", "€", "¬", "€"),)),
    DialectDifference(
        ("concat",),
        "NULL is left out; `a || b` is NULL if one of them is",
        (
            DialectExample("concat('a', NULL, 'b')", "ab", "NULL", "ab"),
            DialectExample("'a' || NULL", "NULL", "NULL", "NULL"),
        ),
    ),
    DialectDifference(
        ("extract", "date_part", "datepart"),
        "`dow` and `dayofweek` of a Sunday are 0; seconds have no fraction",
        (
            DialectExample("extract(dow FROM DATE '2026-11-01')", "0", "1", "0"),
            DialectExample("extract(dayofweek FROM DATE '2026-11-01')", "0", "1", "error"),
            DialectExample("extract(second FROM TIMESTAMP '2026-11-01 00:00:01.5')", "1", "1.500000", "1.500000"),
        ),
    ),
    DialectDifference(
        ("date_diff", "datediff"),
        "the unit comes first, as a text, then start and end; it counts the bounds between them",
        (
            DialectExample(
                "date_diff('day', DATE '2026-10-31', DATE '2026-11-02')",
                "2",
                "2",
                "2",
                in_spark="datediff(DATE '2026-11-02', DATE '2026-10-31')",
                in_postgres="DATE '2026-11-02' - DATE '2026-10-31'",
            ),
            DialectExample(
                "date_diff('month', DATE '2026-10-31', DATE '2026-11-01')",
                "1",
                "0",
                "none",
                in_spark="timestampdiff(MONTH, DATE '2026-10-31', DATE '2026-11-01')",
            ),
            DialectExample(
                "date_diff('hour', TIMESTAMP '2026-11-01 00:59:00', TIMESTAMP '2026-11-01 01:01:00')",
                "1",
                "0",
                "none",
                in_spark="timestampdiff(HOUR, TIMESTAMP '2026-11-01 00:59:00', TIMESTAMP '2026-11-01 01:01:00')",
            ),
        ),
    ),
    DialectDifference(
        ("date_sub", "datesub"),
        "it is the number of whole units between two times; `d - 3` is three days before",
        (
            DialectExample("date_sub('day', DATE '2026-11-01', DATE '2026-11-04')", "3", "error", "none"),
            DialectExample(
                "DATE '2026-11-04' - 3", "2026-11-01", "2026-11-01", "2026-11-01", in_spark="date_sub(DATE '2026-11-04', 3)"
            ),
        ),
    ),
    DialectDifference(
        ("dayname",),
        "the whole name",
        (
            DialectExample(
                "dayname(DATE '2026-11-01')", "Sunday", "Sun", "Sunday", in_postgres="to_char(DATE '2026-11-01', 'FMDay')"
            ),
        ),
    ),
    DialectDifference(
        ("monthname",),
        "the whole name",
        (
            DialectExample(
                "monthname(DATE '2026-11-01')", "November", "Nov", "November", in_postgres="to_char(DATE '2026-11-01', 'FMMonth')"
            ),
        ),
    ),
    DialectDifference(
        ("dayofweek",),
        "Sunday is 0; `isodow` counts from Monday, which is 1",
        (DialectExample("dayofweek(DATE '2026-11-01')", "0", "1", "0", in_postgres="extract(dow FROM DATE '2026-11-01')"),),
    ),
    DialectDifference(
        ("weekday",),
        "Sunday is 0; `isodow` counts from Monday, which is 1",
        (DialectExample("weekday(DATE '2026-11-01')", "0", "6", "0", in_postgres="extract(dow FROM DATE '2026-11-01')"),),
    ),
    DialectDifference(
        ("factorial",),
        "of any size, until it fails",
        (
            DialectExample("factorial(20)", "2432902008176640000", "2432902008176640000", "2432902008176640000"),
            DialectExample("factorial(25)", "15511210043330985984000000", "NULL", "15511210043330985984000000"),
        ),
    ),
    DialectDifference(
        ("format",),
        "its places are `{}`; `printf` takes `%d`",
        (
            DialectExample("format('{}', 5)", "5", "{}", "{}", in_spark="format_string('{}', 5)"),
            DialectExample("printf('%d', 5)", "5", "5", "5", in_postgres="format('%s', 5)"),
        ),
    ),
    DialectDifference(
        ("hash",),
        "the number is DuckDB's own",
        (DialectExample("hash(1)", "4717996019076358352", "-559580957", "-1905060026", in_postgres="hashint4(1)"),),
    ),
    DialectDifference(
        ("json_array_length",),
        "0 for what is not a list",
        (
            DialectExample(
                "json_array_length('[1, 2]')",
                "2",
                "2",
                "2",
                in_spark="json_array_length('[1, 2]')",
                in_postgres="json_array_length('[1, 2]')",
            ),
            DialectExample("json_array_length('{\"a\": 1}')", "0", "NULL", "error"),
        ),
    ),
    DialectDifference(
        ("left",),
        "a negative number leaves out characters at the other end",
        (
            DialectExample("left('abc', 2)", "ab", "ab", "ab"),
            DialectExample("left('abc', -1)", "ab", "", "ab"),
        ),
    ),
    DialectDifference(
        ("right",),
        "a negative number leaves out characters at the other end",
        (
            DialectExample("right('abc', 2)", "bc", "bc", "bc"),
            DialectExample("right('abc', -1)", "bc", "", "bc"),
        ),
    ),
    DialectDifference(
        ("levenshtein", "editdist3"),
        "it counts bytes of UTF-8, not characters",
        (DialectExample("levenshtein('é', 'e')", "2", "1", "none"),),
    ),
    DialectDifference(
        ("ln", "log10", "log2"),
        "of a number without a logarithm the result is `nan` or infinite, and the view rejects the event",
        (
            DialectExample("ln(0)", "-inf", "NULL", "error"),
            DialectExample("ln(-1)", "nan", "NULL", "error"),
        ),
    ),
    DialectDifference(
        ("log",),
        "it is the logarithm to base 10; `ln` is the natural one",
        (
            DialectExample("log(100)", "2.0", "4.605170185988092", "2"),
            DialectExample("log(2, 8)", "3.0", "3.0", "3.0000000000000000"),
        ),
    ),
    DialectDifference(
        ("lower", "upper", "lcase", "ucase"),
        "a letter stays one letter, such as ß",
        (DialectExample("upper('ß')", "ẞ", "SS", "ß"),),
    ),
    DialectDifference(
        ("lpad", "rpad"),
        "the filling must be written, and is not empty",
        (
            DialectExample("lpad('5', 3, '0')", "005", "005", "005"),
            DialectExample("lpad('abc', 5, '')", "error", "abc", "abc"),
        ),
    ),
    DialectDifference(
        ("ltrim", "rtrim", "trim"),
        "the text comes first, then the characters to remove, as in PostgreSQL",
        (
            DialectExample("ltrim('xxabc', 'x')", "abc", "", "abc"),
            DialectExample("trim('xax', 'x')", "a", "", "a"),
            DialectExample("trim('  a  ')", "a", "a", "a"),
        ),
    ),
    DialectDifference(
        ("pow", "power"),
        "a power of 0 may be infinite: the view rejects the event",
        (DialectExample("power(0, -1)", "inf", "Infinity", "error"),),
    ),
    DialectDifference(
        ("regexp_extract",),
        "the whole match unless a group is named",
        (
            DialectExample(
                "regexp_extract('a1', '[a-z]([0-9])')",
                "a1",
                "1",
                "1",
                in_spark="regexp_extract('a1', '[a-z]([0-9])')",
                in_postgres="substring('a1', '[a-z]([0-9])')",
            ),
            DialectExample(
                "regexp_extract('a1', '[a-z]([0-9])', 1)",
                "1",
                "1",
                "1",
                in_spark="regexp_extract('a1', '[a-z]([0-9])', 1)",
                in_postgres="substring('a1', '[a-z]([0-9])')",
            ),
        ),
    ),
    DialectDifference(
        ("regexp_extract_all",),
        "the whole matches unless a group is named",
        (
            DialectExample(
                "regexp_extract_all('a1b2', '[a-z]([0-9])')",
                "[a1, b2]",
                "[1, 2]",
                "none",
                in_spark="regexp_extract_all('a1b2', '[a-z]([0-9])')",
                in_postgres="regexp_extract_all('a1b2', '[a-z]([0-9])')",
            ),
        ),
    ),
    DialectDifference(
        ("regexp_replace",),
        "the first match only; a fourth argument 'g' replaces all, and a group is \\1",
        (
            DialectExample("regexp_replace('aaa', 'a', 'b')", "baa", "bbb", "baa"),
            DialectExample("regexp_replace('aaa', 'a', 'b', 'g')", "bbb", "error", "bbb"),
            DialectExample("regexp_replace('abc', '(a)', '\\1\\1')", "aabc", "11bc", "aabc"),
            DialectExample("regexp_replace('abc', '(a)', '$1$1')", "$1$1bc", "aabc", "$1$1bc"),
        ),
    ),
    DialectDifference(
        ("regexp_matches",),
        "whether a part matches; in PostgreSQL it is the groups",
        (DialectExample("regexp_matches('abc', 'b')", "true", "true", "{b}", in_spark="regexp('abc', 'b')"),),
    ),
    DialectDifference(
        ("round",),
        "halves away from zero, as in Spark, but of the DOUBLE's own digits; PostgreSQL rounds a DOUBLE to even",
        (
            DialectExample("round(2.5)", "3", "3", "3"),
            DialectExample("round(CAST(2.5 AS DOUBLE))", "3.0", "3.0", "2", in_postgres="round(CAST(2.5 AS DOUBLE PRECISION))"),
            DialectExample(
                "round(CAST(1.005 AS DOUBLE), 2)", "1.0", "1.01", "none", in_postgres="round(CAST(1.005 AS DOUBLE PRECISION), 2)"
            ),
        ),
    ),
    DialectDifference(
        ("acos", "asin", "sqrt"),
        "the result is `nan` where there is none, and the view rejects the event",
        (
            DialectExample("sqrt(-1)", "nan", "NaN", "error"),
            DialectExample("acos(2)", "nan", "NaN", "error"),
        ),
    ),
    DialectDifference(
        ("exp",),
        "infinite where it is too large: the view rejects the event",
        (DialectExample("exp(1000)", "inf", "Infinity", "error"),),
    ),
    DialectDifference(
        ("split", "string_split", "str_split"),
        "the separator is a text; `regexp_split_to_array` takes a regular expression",
        (
            DialectExample("split('a,b', ',')", "[a, b]", "[a, b]", "{a,b}", in_postgres="string_to_array('a,b', ',')"),
            DialectExample("split('a.b', '.')", "[a, b]", "[, , , ]", "{a,b}", in_postgres="string_to_array('a.b', '.')"),
        ),
    ),
    DialectDifference(
        ("split_part",),
        "an empty separator parts characters, and part 0 is empty",
        (
            DialectExample("split_part('a,b', ',', -1)", "b", "b", "b"),
            DialectExample("split_part('a,b', ',', 0)", "", "error", "error"),
            DialectExample("split_part('ab', '', 1)", "a", "ab", "ab"),
        ),
    ),
    DialectDifference(
        ("substr", "substring"),
        "position 1 is the first; from 0 on, a length counts the place before it, too; negative positions count from the end",
        (
            DialectExample("substring('abc', 0, 2)", "a", "ab", "a"),
            DialectExample("substr('abc', -2)", "bc", "bc", "abc"),
            DialectExample("substring('abc', 2, -1)", "a", "", "error"),
        ),
    ),
    DialectDifference(
        ("time_bucket",),
        "buckets of days and weeks are aligned to Monday, 3 January 2000",
        (
            DialectExample(
                "time_bucket(INTERVAL 1 DAY, TIMESTAMP '2026-01-08 12:00:00')",
                "2026-01-08 00:00:00",
                "2026-01-08 00:00:00",
                "2026-01-08 00:00:00",
                in_postgres="date_bin('1 day', TIMESTAMP '2026-01-08 12:00:00', TIMESTAMP '1970-01-01')",
            ),
            DialectExample(
                "time_bucket(INTERVAL 7 DAY, TIMESTAMP '2026-01-08 12:00:00')",
                "2026-01-05 00:00:00",
                "2026-01-08 00:00:00",
                "2026-01-08 00:00:00",
                in_postgres="date_bin('7 days', TIMESTAMP '2026-01-08 12:00:00', TIMESTAMP '1970-01-01')",
            ),
        ),
    ),
    DialectDifference(
        ("to_binary",),
        "the text's bits; `unhex` reads digits",
        (DialectExample("to_binary('61')", "0011011000110001", "a", "none"),),
    ),
    DialectDifference(
        ("to_timestamp",),
        "it takes seconds since 1970, not a text; CAST or `strptime` reads a text",
        (
            DialectExample("to_timestamp(0)", "1970-01-01 00:00:00+00", "1970-01-01 00:00:00", "1970-01-01 00:00:00+00"),
            DialectExample("to_timestamp('2026-11-01')", "error", "2026-11-01 00:00:00", "error"),
        ),
    ),
    DialectDifference(
        ("typeof",),
        "the names are DuckDB's",
        (
            DialectExample("typeof(1)", "INTEGER", "int", "integer", in_postgres="pg_typeof(1)"),
            DialectExample("typeof(7 / 2)", "DOUBLE", "double", "integer", in_postgres="pg_typeof(7 / 2)"),
        ),
    ),
    DialectDifference(("url_decode",), "a plus sign stays", (DialectExample("url_decode('a+b')", "a+b", "a b", "none"),)),
    DialectDifference(("url_encode",), "a space is %20", (DialectExample("url_encode('a b')", "a%20b", "a+b", "none"),)),
)
