package kubesim

import "strings"

// openAPI answers the part of OpenAPI v3 by which kubectl learns that the server checks the fields
// of what it is sent. There are no schemas in it.
func (c server) openAPI(path string) (any, bool) {
	rest, ok := strings.CutPrefix(path, "/openapi/v3")
	if !ok {
		return nil, false
	}
	of := func(k kind) string {
		if k.Group == "" {
			return "api/" + k.Version
		}
		return "apis/" + k.GroupVersion().String()
	}
	paths := map[string]any{}
	if rest = strings.Trim(rest, "/"); rest == "" {
		for _, k := range c.kinds {
			paths[of(k)] = map[string]any{"serverRelativeURL": "/openapi/v3/" + of(k)}
		}
		return map[string]any{"paths": paths}, true
	}
	for _, k := range c.kinds {
		if of(k) != rest {
			continue
		}
		at := "/" + rest + "/"
		if k.namespaced {
			at += "namespaces/{namespace}/"
		}
		paths[at+k.plural+"/{name}"] = map[string]any{"patch": map[string]any{
			"parameters":                      []any{map[string]any{"name": "fieldValidation", "in": "query", "schema": map[string]any{"type": "string"}}},
			"responses":                       map[string]any{"200": map[string]any{"description": "OK"}},
			"x-kubernetes-group-version-kind": map[string]any{"group": k.Group, "version": k.Version, "kind": k.Kind},
		}}
	}
	return map[string]any{"openapi": "3.0.0", "info": map[string]any{"title": "Kubernetes", "version": c.cfg.Version}, "paths": paths}, len(paths) > 0
}
