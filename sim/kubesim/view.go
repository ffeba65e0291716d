package kubesim

import (
	"maps"
	"mime"
	"net/http"
	"strings"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"

	"github.com/cps-gpu/homelab/sim/kubesim/internal/table"
)

// view is how a client wants to see objects: as they are, as rows of a table, or only their
// metadata.
type view struct {
	table, metadata bool
	include         string // of the object behind a row: Object, None, or Metadata, which is the default
	named           bool   // the columns were sent: a watch names them once
}

// viewOf reads what a request accepts. Only JSON is served.
func viewOf(r *http.Request) view {
	v := view{include: r.URL.Query().Get("includeObject")}
	for part := range strings.SplitSeq(r.Header.Get("Accept"), ",") {
		media, params, err := mime.ParseMediaType(part)
		if err != nil || media != "application/json" || params["as"] != "" && params["v"] != "v1" {
			continue
		}
		v.table = params["as"] == "Table"
		v.metadata = strings.HasPrefix(params["as"], "PartialObjectMetadata")
		return v
	}
	return v
}

// render shows an object or a list.
func (v *view) render(k kind, obj map[string]any) any {
	items, list := obj["items"].([]any)
	switch {
	case obj["kind"] == "Status":
		return obj
	case v.table && list:
		t := v.rows(k, items)
		t["metadata"] = obj["metadata"]
		return t
	case v.table:
		return v.rows(k, []any{obj})
	case v.metadata && list:
		out := make([]any, len(items))
		for i, item := range items {
			out[i] = partial(item.(map[string]any))
		}
		return map[string]any{"apiVersion": "meta.k8s.io/v1", "kind": "PartialObjectMetadataList", "metadata": obj["metadata"], "items": out}
	case v.metadata:
		return partial(obj)
	case list && (!k.custom || k.id() == crds[0].id()): // in a list of a built-in kind, objects do not say of which kind they are
		out := maps.Clone(obj)
		all := make([]any, len(items))
		for i, item := range items {
			m := maps.Clone(item.(map[string]any))
			delete(m, "apiVersion")
			delete(m, "kind")
			all[i] = m
		}
		out["items"] = all
		return out
	}
	return obj
}

// event shows the object of a watch's event.
func (v *view) event(k kind, obj map[string]any) any {
	out := v.render(k, obj)
	if t, ok := out.(map[string]any); ok && v.table {
		if v.named {
			t["columnDefinitions"] = nil
		}
		v.named = true
		t["metadata"] = map[string]any{"resourceVersion": (&unstructured.Unstructured{Object: obj}).GetResourceVersion()}
	}
	return out
}

func (v *view) rows(k kind, items []any) map[string]any {
	objects := make([]map[string]any, len(items))
	for i, item := range items {
		objects[i] = item.(map[string]any)
	}
	columns, cells := table.Rows(k.GroupVersionKind, objects, k.columns)
	rows := make([]any, len(items))
	for i, obj := range objects {
		row := map[string]any{"cells": cells[i]}
		switch v.include {
		case string(metav1.IncludeObject):
			row["object"] = obj
		case string(metav1.IncludeNone):
			row["object"] = nil
		default:
			row["object"] = partial(obj)
		}
		rows[i] = row
	}
	return map[string]any{"apiVersion": "meta.k8s.io/v1", "kind": "Table", "metadata": map[string]any{}, "columnDefinitions": columns, "rows": rows}
}

func partial(obj map[string]any) map[string]any {
	return map[string]any{"apiVersion": "meta.k8s.io/v1", "kind": "PartialObjectMetadata", "metadata": obj["metadata"]}
}
