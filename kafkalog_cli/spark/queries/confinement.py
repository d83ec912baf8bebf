"""Confines a query to the views of its log directories and to functions that only compute.

Spark's SQL reads any file that the user may read (text.`/etc/hostname`), and calls any static method of Java
(`reflect`). A parsed plan is checked before its analysis, because the analysis already reads files. The analysed plan
is checked too, because an expression can produce a name.
"""

from __future__ import annotations

import json
from collections.abc import Iterator
from typing import TYPE_CHECKING, Any

from kafkalog_cli.errors import UsageError
from kafkalog_cli.ops.choices import Allowed
from kafkalog_cli.spark.queries.catalog import TABLE_DATABASE
from kafkalog_cli.spark.queries.plans import elements

if TYPE_CHECKING:
    from pyspark.sql import SparkSession


REVIEWED = frozenset(
    """
    ! % & * + - / < << <= <=> = == > >= >> >>> ^ abs acos acosh add_months aes_decrypt aes_encrypt aggregate and any
    any_value approx_count_distinct approx_percentile approx_top_k approx_top_k_accumulate approx_top_k_combine
    approx_top_k_estimate array array_agg array_append array_compact array_contains array_distinct array_except
    array_insert array_intersect array_join array_max array_min array_position array_prepend array_remove
    array_repeat array_size array_sort array_union arrays_overlap arrays_zip ascii asin asinh assert_true atan atan2
    atanh avg base64 between bigint bin binary bit_and bit_count bit_get bit_length bit_or bit_xor bitmap_and_agg
    bitmap_bit_position bitmap_bucket_number bitmap_construct_agg bitmap_count bitmap_or_agg bool_and bool_or
    boolean bround btrim cardinality cast cbrt ceil ceiling char char_length character_length chr coalesce collate
    collation collations collect_list collect_set collect_union concat concat_ws contains conv convert_timezone corr
    cos cosh cot count count_if count_min_sketch counter_diff covar_pop covar_samp crc32 csc cume_dist curdate
    current_catalog current_database current_date current_path current_schema current_time current_timestamp
    current_timezone current_user date date_add date_diff date_format date_from_unix_date date_part date_sub
    date_trunc dateadd datediff datepart day dayname dayofmonth dayofweek dayofyear decimal decode degrees
    dense_rank div double e element_at elt encode endswith equal_null every exists exp explode explode_outer expm1
    extract factorial filter find_in_set first first_value flatten float floor forall format_number format_string
    from_avro from_base32 from_csv from_json from_unixtime from_utc_timestamp from_xml get get_json_object getbit
    greatest grouping grouping_id hash hex histogram_numeric hll_sketch_agg hll_sketch_estimate hll_union
    hll_union_agg hmac hour hypot if ifnull ilike in initcap inline inline_outer input_file_block_length
    input_file_block_start input_file_name instr int is_valid_utf8 is_valid_variant is_variant_null isnan isnotnull
    isnull jaro_winkler_similarity json_array_length json_object_keys json_tuple kll_merge_agg_bigint
    kll_merge_agg_double kll_merge_agg_float kll_sketch_agg_bigint kll_sketch_agg_double kll_sketch_agg_float
    kll_sketch_get_n_bigint kll_sketch_get_n_double kll_sketch_get_n_float kll_sketch_get_quantile_bigint
    kll_sketch_get_quantile_double kll_sketch_get_quantile_float kll_sketch_get_rank_bigint
    kll_sketch_get_rank_double kll_sketch_get_rank_float kll_sketch_merge_bigint kll_sketch_merge_double
    kll_sketch_merge_float kll_sketch_to_string_bigint kll_sketch_to_string_double kll_sketch_to_string_float
    kurtosis lag last last_day last_value lcase lead least left len length levenshtein like listagg ln localtime
    localtimestamp locate log log10 log1p log2 lower lpad ltrim luhn_check make_date make_dt_interval make_interval
    make_time make_timestamp make_timestamp_ltz make_timestamp_ntz make_valid_utf8 make_ym_interval map map_concat
    map_contains_key map_entries map_filter map_from_arrays map_from_entries map_keys map_values map_zip_with mask
    max max_by md5 mean measure median min min_by minute mod mode monotonically_increasing_id month monthname
    months_between named_struct nanvl negative next_day not now nth_value ntile nullif nullifzero nvl nvl2
    octet_length or overlay parse_json parse_url percent_rank percentile percentile_approx percentile_cont
    percentile_disc pi pmod posexplode posexplode_outer position positive pow power printf quarter quote radians
    raise_error rand randn random randstr range rank reduce regexp regexp_count regexp_extract regexp_extract_all
    regexp_instr regexp_like regexp_replace regexp_substr regr_avgx regr_avgy regr_count regr_intercept regr_r2
    regr_slope regr_sxx regr_sxy regr_syy repeat replace reverse right rint rlike round row_number rpad rtrim
    schema_of_avro schema_of_csv schema_of_json schema_of_variant schema_of_variant_agg schema_of_xml sec second
    sentences sequence session_user session_window sha sha1 sha2 shiftleft shiftright shiftrightunsigned shuffle
    sign signum sin sinh size skewness slice smallint some sort_array soundex space spark_partition_id split
    split_part sql_keywords sqrt st_asbinary st_geogfromwkb st_geomfromwkb st_setsrid st_srid stack startswith std
    stddev stddev_pop stddev_samp str_to_map string string_agg struct substr substring substring_index sum tan tanh
    theta_difference theta_intersection theta_intersection_agg theta_sketch_agg theta_sketch_estimate theta_union
    theta_union_agg time time_bucket time_diff time_from_micros time_from_millis time_from_seconds time_to_micros
    time_to_millis time_to_seconds time_trunc timestamp timestamp_micros timestamp_millis timestamp_nanos
    timestamp_seconds tinyint to_avro to_base32 to_binary to_char to_csv to_date to_json to_number to_time
    to_timestamp to_timestamp_ltz to_timestamp_ntz to_unix_timestamp to_utc_timestamp to_varchar to_variant_object
    to_xml transform transform_keys transform_values translate trim trunc try_add try_aes_decrypt try_avg try_divide
    try_element_at try_make_interval try_make_timestamp try_make_timestamp_ltz try_make_timestamp_ntz try_mod
    try_multiply try_parse_json try_parse_url try_subtract try_sum try_to_binary try_to_date try_to_number
    try_to_time try_to_timestamp try_url_decode try_validate_utf8 try_variant_array_append try_variant_get
    try_variant_insert try_variant_set tuple_difference_double tuple_difference_integer
    tuple_difference_theta_double tuple_difference_theta_integer tuple_intersection_agg_double
    tuple_intersection_agg_integer tuple_intersection_double tuple_intersection_integer
    tuple_intersection_theta_double tuple_intersection_theta_integer tuple_sketch_agg_double
    tuple_sketch_agg_integer tuple_sketch_estimate_double tuple_sketch_estimate_integer tuple_sketch_summary_double
    tuple_sketch_summary_integer tuple_sketch_theta_double tuple_sketch_theta_integer tuple_union_agg_double
    tuple_union_agg_integer tuple_union_double tuple_union_integer tuple_union_theta_double
    tuple_union_theta_integer typeof ucase unbase64 unhex uniform unix_date unix_micros unix_millis unix_nanos
    unix_seconds unix_timestamp upper url_decode url_encode user uuid validate_utf8 var_pop var_samp variance
    variant_array_append variant_delete variant_explode variant_explode_outer variant_get variant_insert variant_set
    variant_strip_nulls vector_avg vector_cosine_similarity vector_inner_product vector_l2_distance vector_norm
    vector_normalize vector_sum version weekday weekofyear when width_bucket window window_time xxhash64 year
    zeroifnull zip_with | ~
    """.split()  # noqa: SIM905 - sixty lines of names, not six hundred
)
"""Functions of Spark 4.3.0 that only compute a value from their arguments."""

CODE = frozenset({"java_method", "reflect", "try_reflect"})
"""Functions that call any static method of a Java class."""

FILES = frozenset(
    {
        "from_protobuf", "to_protobuf", "python_worker_logs", "xpath", "xpath_boolean", "xpath_double", "xpath_float",
        "xpath_int", "xpath_long", "xpath_number", "xpath_short", "xpath_string",
    }
)  # fmt: skip
"""Functions that read files: descriptors by path, logs of workers, and the DTD that an XML text names."""

MOST_ARGUMENTS = {"from_xml": 2, "schema_of_xml": 1, "from_avro": 2, "schema_of_avro": 1}
"""Functions of REVIEWED whose further argument is a map of options, which can name a schema's file or address."""

REFUSED_CLASSES = frozenset(
    {
        "CallMethodViaReflection", "TryReflect", "ScalaUDF", "PythonUDF", "PythonUDAF", "PythonUDTF", "ScalaAggregator",
        "HiveSimpleUDF", "HiveGenericUDF", "HiveGenericUDTF", "HiveUDAFFunction", "ApplyFunctionExpression",
        "FromProtobuf", "ToProtobuf", "ProtobufDataToCatalyst", "CatalystDataToProtobuf",
    }
)  # fmt: skip
"""Expressions of an analysed plan that call code or read files, whatever name a query used for them."""


FILES_AS_TABLES = "spark.sql.runSQLOnFiles"
"""Spark's setting for whether a name such as text.`/etc/hostname` is a file."""

_BUILTIN = ((), ("builtin",), ("system", "builtin"))
_LEAVES = frozenset(
    {
        "LogicalRDD", "LocalRelation", "OneRowRelation", "Range", "CTERelationRef", "ResolvedInlineTable",
        "UnresolvedSubqueryColumnAliases", "UnionLoopRef", "EmptyRelation",
    }
)  # fmt: skip
"""Leaves of an analysed plan that come from the query's text or from our views."""


def settings_of(allowed: frozenset[Allowed]) -> dict[str, str]:
    """Return Spark's settings for queries with these permissions."""
    return {FILES_AS_TABLES: str(Allowed.FILES in allowed).lower()}


def check_parsed(spark: SparkSession, plan: Any, allowed: frozenset[Allowed]) -> None:
    """Raise UsageError if a parsed plan names a file, or a function that may do more than compute."""
    for kind, node in _objects(spark, plan):
        if kind == "UnresolvedRelation":
            _check_relation(tuple(elements(node.multipartIdentifier())), allowed)
        elif kind == "UnresolvedFunction":
            parts = tuple(elements(node.nameParts()))
            _check_function(spark, parts, node.arguments().size(), allowed)
        elif kind == "UnresolvedTableValuedFunction":
            _check_function(spark, tuple(elements(node.name())), node.functionArgs().size(), allowed)
        elif kind == "UnresolvedGenerator":
            _check_function(spark, (node.name().funcName(),), node.children().size(), allowed)
        elif kind == "ExpressionWithUnresolvedIdentifier" and Allowed.JAVA not in allowed:
            raise UsageError(
                reason="no expression may make the name of a function or of a column here: write the name itself,"
                " without identifier(…)"
            )
        elif kind == "PlanWithUnresolvedIdentifier" and Allowed.FILES not in allowed:
            _check_files_are_no_tables(spark)


def check_analysed(plan: Any, allowed: frozenset[Allowed]) -> None:
    """Raise UsageError if an analysed plan reads anything but views, or calls code."""
    for node in json.loads(plan.toJSON()) if len(allowed) < len(Allowed) else ():
        name = str(node["class"]).rpartition(".")[2]
        if node["num-children"] == 0 and name not in _LEAVES and Allowed.FILES not in allowed:
            raise UsageError(
                reason=f"sql reads only the views of its log directories, not {name}{_more(Allowed.FILES)}"
            )
        for kind in _classes(node):
            if kind in REFUSED_CLASSES and Allowed.JAVA not in allowed:
                raise UsageError(reason=f"sql calls only Spark's own functions, not {kind}{_more(Allowed.JAVA)}")


def _check_relation(parts: tuple[str, ...], allowed: frozenset[Allowed]) -> None:
    if len(parts) == 1 or parts[0].casefold() == TABLE_DATABASE or Allowed.FILES in allowed:
        return
    name = ".".join((*parts[:-1], f"`{parts[-1]}`"))
    whole = ".".join(parts)
    raise UsageError(
        reason=f"there is no view {name}, and sql reads no file by its path{_more(Allowed.FILES)}."
        f" A topic with dots in its name is written `{whole}`, between backticks"
    )


def _check_function(spark: SparkSession, parts: tuple[str, ...], arguments: int, allowed: frozenset[Allowed]) -> None:
    name = parts[-1].casefold()
    if name in FILES or arguments > MOST_ARGUMENTS.get(name, arguments):
        if Allowed.FILES not in allowed:
            of_options = " with options" if name in MOST_ARGUMENTS else ""
            raise UsageError(reason=f"the function {name}{of_options} can read a file{_more(Allowed.FILES)}")
        return
    is_builtin = tuple(part.casefold() for part in parts[:-1]) in _BUILTIN
    if Allowed.JAVA in allowed or (is_builtin and (name in REVIEWED or not _is_known(spark, name))):
        return
    if name in CODE:
        raise UsageError(reason=f"the function {name} calls any method of Java{_more(Allowed.JAVA)}")
    raise UsageError(
        reason=f"no review has shown yet that the function {'.'.join(parts)} only computes{_more(Allowed.JAVA)}"
    )


def _is_known(spark: SparkSession, name: str) -> bool:
    """Whether Spark has the function; for an unknown function, Spark's own message is better than ours."""
    state = spark._jsparkSession.sessionState()
    known = (one.listFunction().mkString(" ") for one in (state.functionRegistry(), state.tableFunctionRegistry()))
    return any(name == word.rpartition(".")[2].strip("`").casefold() for word in " ".join(known).split())


def _check_files_are_no_tables(spark: SparkSession) -> None:
    """Raise UsageError unless Spark takes no name for a file: a name from an expression cannot be checked before."""
    if spark.conf.get(FILES_AS_TABLES) != "false":
        raise UsageError(reason=f"no expression may make the name of a view where {FILES_AS_TABLES} is true")


def _more(allowed: Allowed) -> str:
    return f" (--allow {allowed.value} permits it)"


def _classes(node: Any) -> Iterator[str]:
    """Iterate over the names of all classes in a node of a plan in JSON."""
    if isinstance(node, dict):
        if isinstance(node.get("class"), str):
            yield node["class"].rpartition(".")[2]
        node = node.values()
    elif not isinstance(node, list):
        return
    for part in node:
        yield from _classes(part)


def _objects(spark: SparkSession, plan: Any) -> Iterator[tuple[str, Any]]:
    """Iterate over all objects in a parsed plan, with their class names.

    Children alone are not enough: a window's definition, for example, is in a map that no method of a plan returns.
    Java is asked once per class how to iterate over its objects.
    """
    from py4j.java_gateway import JavaObject, is_instance_of

    gateway = spark.sparkContext._gateway
    containers: dict[str, str] = {}
    waiting = [plan]
    while waiting:
        found = waiting.pop()
        if not isinstance(found, JavaObject):
            continue
        kind = found.getClass().getName()
        if kind not in containers:
            is_sequence = is_instance_of(gateway, found, "scala.collection.Iterable")
            is_product = is_instance_of(gateway, found, "scala.Product")
            is_type = is_instance_of(gateway, found, "org.apache.spark.sql.types.DataType")
            containers[kind] = "" if is_type else "iterator" if is_sequence else "productIterator" * is_product
        yield kind.rpartition(".")[2], found
        if containers[kind]:
            parts = getattr(found, containers[kind])()
            while parts.hasNext():
                waiting.append(parts.next())
