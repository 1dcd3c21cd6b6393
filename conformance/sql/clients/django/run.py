"""Django's own tests of what it does with a database, unchanged: run.py HOST PORT. It ends with 1 if a test fails that known_failures.txt
does not name, or if one passes that it does name."""

import os
import re
import subprocess
import sys

HERE = os.path.dirname(os.path.abspath(__file__))
SUITE = os.path.join(os.path.dirname(os.path.dirname(sys.executable)), "django")  # scripts/sqlclients.sh puts the sources here

# Django makes the tables of all applications of a run. Those that look at definitions all the time have runs of their own.
RUNS = [line.split() for line in """
backends introspection inspectdb
schema
migrations
constraints indexes model_indexes unmanaged_models db_utils delete delete_regress
aggregation aggregation_regress annotations basic bulk_create custom_columns custom_lookups custom_managers custom_pk datatypes dates datetimes
db_functions db_typecasts defer defer_regress distinct_on_fields empty_models expressions expressions_case expressions_window extra_regress
field_defaults filtered_relation fixtures fixtures_model_package force_insert_update foreign_object from_db_value generic_relations
generic_relations_regress get_earliest_or_latest get_object_or_404 get_or_create known_related_objects lookup m2m_and_m2o m2m_intermediary
m2m_multiple m2m_recursive m2m_regress m2m_signals m2m_through m2m_through_regress m2o_recursive many_to_many many_to_one many_to_one_null
model_fields model_inheritance model_inheritance_regress multiple_database mutually_referential nested_foreign_keys null_fk null_fk_ordering
null_queries one_to_one or_lookups order_with_respect_to ordering prefetch_related properties proxy_models queries queryset_pickle raw_query
reserved_names reverse_lookup save_delete_hooks select_for_update select_related select_related_onetoone select_related_regress serializers
sessions_tests string_lookup test_utils timezones transaction_hooks transactions update update_only_fields
""".strip().split("\n")]


def known():
    with open(os.path.join(HERE, "known_failures.txt"), encoding="utf-8") as f:
        lines = [line.strip() for line in f]
    return {line.split(":", 1)[0] for line in lines if line and not line.startswith("#")}


def main():
    host, port, *modules = sys.argv[1:]
    env = dict(os.environ, HOLDFAST_HOST=host, HOLDFAST_PORT=port, PYTHONPATH=os.pathsep.join([HERE, SUITE]))
    ran, skipped, failed = 0, 0, set()
    for run in [modules] if modules else RUNS:
        done = subprocess.run(
            [sys.executable, "runtests.py", "--settings=holdfast_settings", "--parallel=1", "--noinput", *run],
            cwd=os.path.join(SUITE, "tests"), env=env, stdout=subprocess.PIPE, stderr=subprocess.STDOUT, text=True, errors="replace",
        )
        count = re.search(r"^Ran (\d+) tests", done.stdout, re.M)
        if not count:
            print(done.stdout[-2000:])
            return 1
        ran += int(count[1])
        skips = re.search(r"skipped=(\d+)", done.stdout)
        skipped += int(skips[1]) if skips else 0
        failed |= set(re.findall(r"^(?:ERROR|FAIL): \S+ \((\S+?)\)", done.stdout, re.M))
    unexpected, passed = failed - known(), set() if modules else known() - failed
    for name in sorted(unexpected):
        print("fails:", name)
    for name in sorted(passed):
        print("passes, and stands in known_failures.txt:", name)
    print(f"{ran} tests of Django 5.1.4, {skipped} of them skipped by Django, {len(failed)} fail, {len(failed & known())} of these for a listed reason")
    return 1 if unexpected or passed else 0


if __name__ == "__main__":
    sys.exit(main())
