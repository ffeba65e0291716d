// Package table turns objects into the rows that kubectl get shows, as the API server does:
// pkg/printers/internalversion/printers.go of Kubernetes v1.36.
package table

import (
	"time"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/apimachinery/pkg/runtime/schema"
	"k8s.io/apimachinery/pkg/util/duration"
	"k8s.io/client-go/kubernetes/scheme"
)

// Column is a column of a table. Those of priority 1 are shown by -o wide.
type Column struct {
	Name        string `json:"name"`
	Type        string `json:"type"`
	Format      string `json:"format"`
	Description string `json:"description"`
	Priority    int32  `json:"priority"`

	path string // of a custom kind's value
}

// none stands for a value that is not there.
const none = "<none>"

// Rows returns the columns of a kind, and a row of cells for each object. A kind that comes from a
// CustomResourceDefinition has its columns, custom.
func Rows(gvk schema.GroupVersionKind, objects []map[string]any, custom []Column) (columns []Column, cells [][]any) {
	cells = make([][]any, len(objects))
	columns, row := kindOf(gvk)
	if row == nil {
		if built := scheme.Scheme.Recognizes(gvk) || gvk.Kind == "CustomResourceDefinition"; built { // of which the server shows when it was made
			columns = []Column{name(), {Name: "Created At", Type: "date"}}
			for i, obj := range objects {
				u := &unstructured.Unstructured{Object: obj}
				cells[i] = []any{u.GetName(), u.GetCreationTimestamp().UTC().Format("2006-01-02T15:04:05Z")}
			}
			return columns, cells
		}
		if len(custom) == 0 {
			custom = []Column{{Name: "Age", Type: "date", path: ".metadata.creationTimestamp"}}
		}
		columns = append([]Column{name()}, custom...)
		for i, obj := range objects {
			cells[i] = customRow(obj, custom)
		}
		return columns, cells
	}
	for i, obj := range objects {
		typed, err := scheme.Scheme.New(gvk)
		if err == nil {
			err = runtime.DefaultUnstructuredConverter.FromUnstructured(obj, typed)
		}
		if err != nil { // it was checked when it was stored
			cells[i] = make([]any, len(columns))
			cells[i][0] = (&unstructured.Unstructured{Object: obj}).GetName()
			continue
		}
		cells[i] = row(typed)
	}
	return columns, cells
}

func name() Column { return Column{Name: "Name", Type: "string", Format: "name"} }

// age is how long ago something was.
func age(t metav1.Time) string {
	if t.IsZero() {
		return "<unknown>"
	}
	return duration.HumanDuration(time.Since(t.Time))
}
