"""tandem.toml and TANDEM_... variables: defaults, overrides, and one clear sentence for whatever cannot be used."""

import re
from functools import reduce
from pathlib import Path

import pytest

from tandem.infra.folders import ROOT
from tandem.infra.settings import SettingsError, effective, keys, load, secrets, without_secrets

CREDENTIALS = (
    *("aws_secret_access_key", "AWS_ACCESS_KEY_ID", "aws_session_token", "secret_access_key", "token"),
    *("google_service_account_key", "azure_storage_account_key", "azure_storage_sas_token", "azure_client_secret", "sas_key"),
    *("azure_storage_master_key", "aws_sse_customer_key_base64"),
)


def written(folder: Path, text: str) -> Path:
    (folder / "tandem.toml").write_text(text, "utf-8")
    return folder


def test_every_key_has_a_default(tmp_path: Path) -> None:
    settings = load(written(tmp_path, "# nothing\n"), {})
    assert settings.folder == tmp_path / ".tandem"
    assert (settings.kafka.bootstrap, settings.kafka.partitions) == ("", 2)


def test_a_file_changes_the_settings_that_it_names(tmp_path: Path) -> None:
    settings = load(written(tmp_path, '[kafka]\npartitions = 7\n[spark.conf]\n"spark.x" = "y"\n'), {})
    assert (settings.kafka.partitions, settings.kafka.memory, settings.spark.conf) == (7, "512m", {"spark.x": "y"})


@pytest.mark.parametrize(
    "key", [key for key in keys() if key.type in ("integer", "string", "true / false")], ids=lambda key: key.variable
)
def test_every_key_has_a_variable_that_wins_over_the_file(tmp_path: Path, key) -> None:
    section, _, name = key.name.rpartition(".")
    values = {
        "integer": ("3", "4", 4),
        "string": ('"1g"', "2g", "2g"),
        "true / false": ("false", "true", True),
        "schedule": ('"1 2 * * *"', "", ""),
        "master": ('"local[1]"', "local[2]", "local[2]"),
    }
    kind = "master" if key.name == "spark.master" else "schedule" if "*" in str(key.default) else key.type
    in_file, in_variable, expected = values[kind]
    text = f"[{section}]\n{name} = {in_file}\n" if section else f"{name} = {in_file}\n"
    found = effective(load(written(tmp_path, text), {key.variable: in_variable}))
    value = reduce(lambda within, part: within[part], key.name.split("."), found)
    if key.name in ("state", "storage.root"):
        assert value == str(tmp_path / "2g")
    else:
        assert value in (expected, "********")


def test_choices_and_tables_have_variables_too(tmp_path: Path) -> None:
    environ = {
        "TANDEM_KAFKA_SECURITY": "sasl_ssl",
        "TANDEM_SPARK_CONF": '{"spark.x": "y"}',
        "TANDEM_SERVING_OIDC_RIGHTS": '{"staff": ["read"]}',
    }
    settings = load(tmp_path, environ)
    assert settings.serving.oidc.rights == {"staff": ("read",)}
    assert (settings.kafka.security, settings.spark.conf) == ("sasl_ssl", {"spark.x": "y"})


def test_the_state_folder_is_relative_to_the_project(tmp_path: Path) -> None:
    assert load(written(tmp_path, 'state = "data/here"\n'), {}).folder == tmp_path / "data" / "here"
    assert load(tmp_path, {"TANDEM_STATE": str(tmp_path / "elsewhere")}).folder == tmp_path / "elsewhere"


def test_the_folder_of_the_tables_is_relative_to_the_project(tmp_path: Path) -> None:
    project = written(tmp_path, '[storage]\nroot = "data/tables"\n')
    assert load(project, {}).storage.root == str(tmp_path / "data" / "tables")
    assert load(project, {"TANDEM_STORAGE_ROOT": "/elsewhere"}).storage.root == "/elsewhere"
    assert load(project, {"TANDEM_STORAGE_ROOT": ""}).storage.root == ""  # as the demo asks for tables of its own


def test_a_credential_is_no_option(tmp_path: Path) -> None:
    for name in CREDENTIALS:
        text = f"[storage]\nroot = 's3://bucket'\n[storage.options]\n{name} = 'hush'\n"
        said = f"'{name}' is a credential; set the environment variable {name.upper()} "
        with pytest.raises(SettingsError, match=said) as refused:
            load(written(tmp_path, text), {})
        assert "hush" not in str(refused.value)


@pytest.mark.parametrize(
    ("name", "value"),
    [
        ("options: 'proxy_url'", "http://ann:hush@proxy:3128"),
        ("options: 'aws_endpoint_url'", "https://ann:hush@store:9000/s3"),
        ("options: 'azure_storage_endpoint'", "https://a.blob.core.windows.net/?sv=2022&sig=hush"),
        ("root", "s3://key:hush@bucket/prefix"),
    ],
)
def test_a_credential_in_an_address_is_refused_and_not_repeated(tmp_path: Path, name: str, value: str) -> None:
    _, quoted, option = name.partition(": ")
    root, options = ("s3://bucket", f"{option.strip(chr(39))} = '{value}'") if quoted else (value, "")
    with pytest.raises(SettingsError, match=re.escape(f"storage.{name} has a credential in its address")) as refused:
        load(written(tmp_path, f"[storage]\nroot = '{root}'\n[storage.options]\n{options}\n"), {})
    assert "hush" not in str(refused.value)


@pytest.mark.parametrize("root", ["abfss://container@account.dfs.core.windows.net/x", "s3://bucket/a:b@c"])
def test_an_address_without_a_password_is_taken(tmp_path: Path, root: str) -> None:
    options = {"proxy_url": "http://proxy:3128", "aws_endpoint_url": "http://[::1]:9000"}
    text = f"[storage]\nroot = '{root}'\n[storage.options]\n" + "".join(f"{k} = '{v}'\n" for k, v in options.items())
    assert load(written(tmp_path, text), {}).storage.root == root


def test_tables_in_a_bucket_have_an_address_and_options(tmp_path: Path) -> None:
    options = {"aws_endpoint_url": "http://127.0.0.1:9", "google_application_credentials_path": "key.json", "aws_region": "r"}
    text = "[storage]\nroot = 's3://bucket/prefix/'\n[storage.options]\n" + "".join(f"{k} = '{v}'\n" for k, v in options.items())
    storage = load(written(tmp_path, text), {}).storage
    assert (storage.root, storage.options) == ("s3://bucket/prefix", options)


@pytest.mark.parametrize(
    ("text", "environ", "sentence"),
    [
        ("[kafka]\nbootstap = 'x'\n", {}, "[kafka] of {file}:2: unknown key 'bootstap'; keys: bootstrap, "),
        ("state = 's3://bucket/x'\n", {}, "{file}: state = 's3://bucket/x' is an address; expected a folder of this machine"),
        ("[storage]\nroot = 's3:///x'\n", {}, "{file}: storage.root = 's3:///x' is not an address of an object store; expected "),
        (
            "[storage]\nroot = 'ftp://h/x'\n",
            {},
            "root = 'ftp://h/x' is not an address of an object store; expected a folder, or ",
        ),
        (
            "[storage.options]\naws_region = 'x'\n",
            {},
            "{file}: storage.options are of object stores; storage.root = '' is a folder",
        ),
        (
            "[storage]\nroot = 's3://b'\n[storage.options]\naws_secret_access_key = 'hush'\n",
            {},
            "{file}: storage.options: 'aws_secret_access_key' is a credential; set the environment variable AWS_SECRET",
        ),
        ("stat = 'x'\n", {}, "{file}:1: unknown key 'stat'; keys: state, "),
        ("# so far\n[kafk]\nport = 1\n", {}, "{file}:2: unknown key 'kafk'; keys: kafka, "),
        ("[kafka]\n\npartitions = 0\n", {}, "{file}:3: kafka.partitions = 0 is not valid: expected int >= 1"),
        ("[kafka]\npartitions = '2'\n", {}, "{file}:2: kafka.partitions = '2' is not valid: expected int, got str"),
        ("[kafka]\nmemory = 'much'\n", {}, "{file}:2: kafka.memory = 'much' is not valid: expected str matching regex"),
        ("[kafka]\nsecurity = 'tls'\n", {}, "kafka.security = 'tls' is not valid: choose one of plaintext / "),
        ("[kafka.options]\n'acks' = '0'\n", {}, "{file}: kafka.options: unknown option 'acks'; options: "),
        (
            "[kafka.options]\n'linger.ms' = 'soon'\n",
            {},
            "kafka.options: 'linger.ms' = 'soon' is not valid; expected a whole number",
        ),
        ("kafka = 3\n", {}, "{file}:1: kafka = 3 is not valid: expected object, got int"),
        ("[serving.oidc]\nisuer = 'x'\n", {}, "[serving.oidc] of {file}:2: unknown key 'isuer'; keys: issuer, "),
        ("[serving.oidc]\nleeway_s = 900\n", {}, "{file}:2: serving.oidc.leeway_s = 900 is not valid: expected int <= 300"),
        ("[kafka\n", {}, "{file}: not valid TOML: expected ']' at the end of a table declaration (at line 1, column 7)"),
        ("", {"TANDEM_KAFKA_PARTITIONS": "two"}, "variable TANDEM_KAFKA_PARTITIONS = 'two' is not valid: expected int, got str"),
        (
            "",
            {"TANDEM_KAFKA_PARTITION": "2"},
            "variable TANDEM_KAFKA_PARTITION; did you mean TANDEM_KAFKA_PARTITIONS?",
        ),
        ("", {"TANDEM_SPARK_CONF": "x=y"}, 'variable TANDEM_SPARK_CONF is not a JSON object, such as {{"name": "value"}}'),
    ],
)
def test_an_invalid_setting_is_one_sentence(tmp_path: Path, text: str, environ: dict[str, str], sentence: str) -> None:
    with pytest.raises(SettingsError) as refused:
        load(written(tmp_path, text), environ)
    assert sentence.format(file=tmp_path / "tandem.toml") in str(refused.value)
    assert "\n" not in str(refused.value)


def test_a_file_that_is_not_utf8_is_refused(tmp_path: Path) -> None:
    (tmp_path / "tandem.toml").write_bytes(b"state = '\xff'\n")
    with pytest.raises(SettingsError, match="byte 9 is not UTF-8"):
        load(tmp_path, {})


def test_other_variables_are_ignored(tmp_path: Path) -> None:
    load(tmp_path, {"TANDEM_BICYCLE_GEARS": "21", "PATH": "x"})


def test_secrets_are_masked_wherever_they_are_shown(tmp_path: Path) -> None:
    names = (
        *("s3a.secret.key", "s3a.access.key", "s3a.encryption.key", "s3a.session.token", "gs.auth.service.account.private.key"),
        *("azure.sas.box.ann.blob.core.windows.net", "azure.account.key.ann.dfs.core.windows.net"),
    )
    conf = "".join(f'"spark.hadoop.fs.{name}" = "hush"\n' for name in names)
    conf += '"spark.x" = "y"\n"spark.kafka.sasl.mechanism" = "PLAIN"\n"spark.io.encryption.keySizeBits" = "128"\n'
    settings = load(written(tmp_path, f"[kafka]\npassword = 'hush'\nusername = 'me'\n[spark.conf]\n{conf}"), {})
    shown = effective(settings)
    assert secrets(settings) == {"hush"}
    assert "hush" not in str(shown)
    assert (shown["kafka"]["username"], shown["spark"]["conf"]["spark.x"]) == ("me", "y")
    for text in ("[kafka]\npassword = 17\n", f"[spark]\nconf.x = 3\n[spark.conf]\n{conf}"):
        with pytest.raises(SettingsError) as refused:
            load(written(tmp_path, text), {})
        assert not re.search("hush|17", str(refused.value).removeprefix(str(tmp_path)))


def test_a_variable_that_is_no_table_is_not_repeated(tmp_path: Path) -> None:
    with pytest.raises(SettingsError) as refused:
        load(tmp_path, {"TANDEM_SPARK_CONF": "{'spark.hadoop.fs.s3a.secret.key': 'hush'}"})
    assert "hush" not in str(refused.value)


def test_the_documentation_lists_every_key() -> None:
    def row(key) -> str:
        written = str(key.default).lower() if isinstance(key.default, bool) else key.default
        default = f"`{written}`" if written not in ("", {}) else "empty"
        return f"| `{key.name}` | `{key.variable}` | {key.type} | {default} | {key.meaning} |"

    lines = (ROOT / "docs" / "configuration.md").read_text("utf-8").splitlines()
    assert [line for line in lines if line.count("|") == 6 and line.startswith("| `")] == [row(key) for key in keys()]


@pytest.mark.parametrize(
    ("given", "stored"),
    [
        (b"", b""),
        (b"# mine\n[kafka]\npartitions = 3\n", b"# mine\n[kafka]\npartitions = 3\n"),
        (b"not = toml = at all\n", b"not = toml = at all\n"),
        (b'[kafka]\npassword = "hush" # hush\n', b'[kafka]\npassword = "********" # ********\n'),
        (b'[kafka]\npassword = "a\\"b\\\\c"\n', b'[kafka]\npassword = "********"\n'),
        (b"[lineage]\ntoken = 'a\\b'\n", b"[lineage]\ntoken = '********'\n"),
        ('[kafka]\npassword = "schlüssel"\n'.encode(), b'[kafka]\npassword = "********"\n'),
        (b'[spark.conf]\n"fs.s3a.secret.key" = "k"\n', b""),  # with every k masked it is no TOML
        (
            b'[spark.conf]\n"a.options" = "-Dx.password=hush -Dy=1"\n',
            b'[spark.conf]\n"a.options" = "-Dx.password=******** -Dy=1"\n',
        ),
        (b'[kafka]\npassword = "\\u0068ush"\n', b""),  # written as nobody expects
    ],
)
def test_a_stored_settings_file_has_no_secret(given: bytes, stored: bytes) -> None:
    assert without_secrets(given) == stored


def test_no_default_is_a_secret(tmp_path: Path) -> None:
    """A setting whose name looks like a secret's would have its value masked wherever it stands in a log."""
    assert secrets(load(written(tmp_path, ""), {})) == frozenset()


def test_a_secret_among_javas_options_is_masked(tmp_path: Path) -> None:
    conf = '"spark.driver.extraJavaOptions" = "-XX:-UsePerfData -Djavax.net.ssl.trustStorePassword=hush -Duser.name=ann"\n'
    found = load(written(tmp_path, f"[spark.conf]\n{conf}"), {})
    assert secrets(found) == {"hush"}
    shown = effective(found)["spark"]["conf"]["spark.driver.extraJavaOptions"]
    assert shown == "-XX:-UsePerfData -Djavax.net.ssl.trustStorePassword=******** -Duser.name=ann"
