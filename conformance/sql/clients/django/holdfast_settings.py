"""Settings of Django's own tests for a run beside Holdfast: HOLDFAST_HOST and HOLDFAST_PORT in the environment say where it is.

Django's backend for MySQL is used as it is, through PyMySQL. What the backend supposes of every MySQL and Holdfast does not have
is said in the backend's own words, its features, so that Django leaves those tests out as it does for other databases.
"""

import os

import pymysql

pymysql.install_as_MySQLdb()
pymysql.version_info = (2, 2, 6, "final", 0)  # Django asks for a recent mysqlclient, whose place PyMySQL takes

from django.db.backends.mysql.features import DatabaseFeatures  # noqa: E402

# Five collations are supported (docs/SQL.md), and none of Esperanto.
DatabaseFeatures.test_collations = {
    "ci": "utf8mb4_general_ci",
    "non_default": "utf8mb4_bin",
    "swedish_ci": "utf8mb4_general_ci",
    "virtual": "utf8mb4_bin",
}
DatabaseFeatures.supports_expression_indexes = False  # an index of an expression is refused
DatabaseFeatures.supports_index_column_ordering = False  # so is a descending one


def database(name):
    return {
        "ENGINE": "django.db.backends.mysql",
        "NAME": name,
        "USER": "root",
        "HOST": os.environ["HOLDFAST_HOST"],
        "PORT": int(os.environ["HOLDFAST_PORT"]),
        "TEST": {"CHARSET": "utf8mb4", "COLLATION": "utf8mb4_general_ci"},
    }


DATABASES = {"default": database("django"), "other": database("django_other")}
SECRET_KEY = "of tests alone"
USE_TZ = False
DEFAULT_AUTO_FIELD = "django.db.models.AutoField"
PASSWORD_HASHERS = ["django.contrib.auth.hashers.MD5PasswordHasher"]
