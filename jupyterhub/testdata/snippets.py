# Runs one of the snippets as z2jh does, with stand-ins for what it imports, and prints
# what came of it. Arguments: the snippet, and JSON with values, secrets, users.
import json
import sys
import types

snippet, given = sys.argv[1], json.loads(sys.argv[2])


class Config:
    def __init__(self):
        self.__dict__["sections"] = {}

    def __getattr__(self, name):
        return self.sections.setdefault(name, types.SimpleNamespace())


class HTTPError(Exception):
    pass


def get_config(key, default=None):
    value = given["values"]
    for level in key.split("."):
        if not isinstance(value, dict) or level not in value:
            return default
        value = value[level]
    return value


sys.modules["z2jh"] = types.SimpleNamespace(get_config=get_config, get_secret_value=lambda key: given["secrets"][key])
sys.modules["tornado"] = types.SimpleNamespace(web=types.SimpleNamespace(HTTPError=HTTPError))
c = Config()
with open(snippet) as f:
    exec(compile(f.read(), snippet, "exec"), {"c": c})

out = {}
for section, traits in c.sections.items():
    for name, value in vars(traits).items():
        if not callable(value):
            out[section + "." + name] = value
            continue
        for user, groups in given["users"].items():
            spawner = types.SimpleNamespace(
                user=types.SimpleNamespace(name=user, groups=[types.SimpleNamespace(name=g) for g in groups])
            )
            try:
                out[user] = [p["slug"] for p in value(spawner)]
            except HTTPError as e:
                out[user] = str(e)
print(json.dumps(out))
