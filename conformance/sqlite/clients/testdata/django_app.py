"""A Django project in one file: notes that are created, updated, rolled back and read.

The extension is loaded once, before the first connection; settings and models know nothing of it. A database is made a WAL one by the
first migration of any project that wants it to be; here that is one PRAGMA.
"""
import os
import sqlite3
import sys

path = sys.argv[1]

loader = sqlite3.connect(":memory:")
loader.enable_load_extension(True)
loader.load_extension(os.environ["HOLDFAST_SQLITE_SO"])
loader.close()

import django
from django.conf import settings
from django.db import connection, models, transaction

settings.configure(
    DATABASES={"default": {"ENGINE": "django.db.backends.sqlite3", "NAME": path}},
    DEFAULT_AUTO_FIELD="django.db.models.AutoField",
)
django.setup()


class Note(models.Model):
    text = models.CharField(max_length=100)

    class Meta:
        app_label = "notes"


acknowledged = 0

with connection.cursor() as cursor:
    assert cursor.execute("PRAGMA journal_mode=WAL").fetchone()[0] == "wal"
    assert cursor.execute("PRAGMA holdfast_ack").fetchone()[0] == "archive"

with connection.schema_editor() as editor:
    editor.create_model(Note)
acknowledged += 1

for i in range(20):
    Note.objects.create(text=f"note {i}")
    acknowledged += 1
Note.objects.filter(text="note 3").update(text="changed")
acknowledged += 1
with transaction.atomic():
    Note.objects.create(text="one of two")
    Note.objects.create(text="two of two")
acknowledged += 1
try:
    with transaction.atomic():
        Note.objects.create(text="never")
        raise RuntimeError
except RuntimeError:
    pass
with transaction.atomic():
    Note.objects.create(text="kept")
    try:
        with transaction.atomic():  # a savepoint
            Note.objects.create(text="never")
            raise RuntimeError
    except RuntimeError:
        pass
acknowledged += 1
Note.objects.get(text="note 5").delete()
acknowledged += 1

assert Note.objects.count() == 22, Note.objects.count()
assert not Note.objects.filter(text="never").exists()
connection.close()
print(acknowledged, "Django", django.__version__)
