"""How a real document is held against its schema. Shipped schemas leave objects open, because fields may be added; here
they are closed, so that a field cannot be added without being described."""
import copy
import json

import jsonschema

from scene import SCHEMAS

# Null without a reason says that there is none, where that is not a lack of knowledge: an event that is about no tenant, a
# month that is not closed, a series of all devices together.
NONE = {
    "events": {"workload", "tenant", "user", "gpu", "pid", "bytes", "denial", "by", "old", "new", "fix", "message_id", "arguments"},
    "report": {"closed", "seal"},
    "series": {"gpu"},
    "split": {"workload"},
}
for name in ("event", "event_line", "event_why", "why", "trim", "suspend", "resume"):
    NONE[name] = NONE["events"]
# Nothing limits the pinned host memory of most workloads.
for name in ("ps", "top", "snapshot", "workloads", "explain_workload", "explain_process", "run"):
    NONE[name] = {"host_limit_bytes"}
NONE["change"] = {"old_host_limit_bytes", "host_limit_bytes"}


def closed(schema):
    schema = copy.deepcopy(schema)

    def close(part):
        if isinstance(part, list):
            for each in part:
                close(each)
        elif isinstance(part, dict):
            if part.get("type") == "object" and "properties" in part:
                part.setdefault("additionalProperties", False)
            for each in part.values():
                close(each)

    close(schema)
    return schema


def schema_of(name):
    return closed(json.loads((SCHEMAS / f"{name}.json").read_text()))


def nulls(value, path=""):
    """Fields that are null without a reason beside them."""
    if isinstance(value, list):
        return [found for number, each in enumerate(value) for found in nulls(each, f"{path}[{number}]") if each is not None]
    if not isinstance(value, dict):
        return []
    bare = [(key, f"{path}.{key}") for key, each in value.items() if each is None and not value.get(key + "_na")]
    return bare + [found for key, each in value.items() for found in nulls(each, f"{path}.{key}")]


# What the daemon says, in documents that the dashboard translates: each such text has its id beside it.
SAID = {"held_back_by", "book_altered", "because", "not_because", "label", "source"}
QUOTED = {"devices_na", "driver_na"}  # what the system or the driver said
TRANSLATED = {"snapshot", "workloads", "devices", "tenants", "leases", "lease", "change", "explain_workload", "health", "why", "event", "events", "session", "schedules", "claim", "claims"}


def without_id(value, path=""):
    """Texts that say something without the id of what they say. `text` has it beside itself, any other field F in `F_message`."""
    if isinstance(value, list):
        return [found for number, each in enumerate(value) for found in without_id(each, f"{path}[{number}]")]
    if not isinstance(value, dict):
        return []
    bare = [f"{path}.{key}" for key, each in value.items()
            if isinstance(each, str) and each and (key in SAID or key.endswith("_na")) and key not in QUOTED and "message_id" not in value.get(key + "_message", {})]
    if "text" in value and ("level" in value or value.get("status") == "ok") and not value.get("message_id"):
        bare.append(f"{path}.text")
    return bare + [found for key, each in value.items() if key not in ("arguments", "shrinking") for found in without_id(each, f"{path}.{key}")]


def check(document, name=None):
    """Raises where the document is not as its schema says. Returns the schema's name."""
    name = name or document["schema"].removeprefix("ration.").removesuffix("/1")
    errors = sorted(jsonschema.Draft7Validator(schema_of(name)).iter_errors(document), key=lambda error: len(error.path))
    if errors:
        worst = jsonschema.exceptions.best_match(errors)
        raise AssertionError(f"{name}: {worst.message} at {list(worst.absolute_path)}")
    if "error" not in document:
        bare = [path for key, path in nulls(document) if key not in NONE.get(name, ())]
        assert not bare, f"{name}: null without a reason: {bare}"
        bare = without_id(document.get("data", {})) if name in TRANSLATED else []
        assert not bare, f"{name}: said without an id: {bare}"
    return name
