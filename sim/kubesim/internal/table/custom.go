package table

import (
	"bytes"
	"fmt"
	"slices"
	"time"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/client-go/util/jsonpath"
)

// Columns reads the additionalPrinterColumns of a version of a CustomResourceDefinition.
func Columns(defined []any) []Column {
	var out []Column
	for _, d := range defined {
		m, _ := d.(map[string]any)
		var c Column
		c.Name, _ = m["name"].(string)
		c.Type, _ = m["type"].(string)
		c.Format, _ = m["format"].(string)
		c.Description, _ = m["description"].(string)
		c.path, _ = m["jsonPath"].(string)
		switch p := m["priority"].(type) {
		case int64:
			c.Priority = int32(p) //nolint:gosec // 0 or 1
		case float64:
			c.Priority = int32(p)
		}
		out = append(out, c)
	}
	if out != nil && !slices.ContainsFunc(out, func(c Column) bool { return c.path == "" }) {
		return out
	}
	return nil
}

func customRow(obj map[string]any, columns []Column) []any {
	row := []any{(&unstructured.Unstructured{Object: obj}).GetName()}
	for _, c := range columns {
		row = append(row, customCell(obj, c))
	}
	return row
}

// customCell is one value of a custom object: cellForJSONValue of apiextensions-apiserver's
// tableconvertor.go.
func customCell(obj map[string]any, c Column) any {
	path := jsonpath.New(c.Name)
	path.AllowMissingKeys(true)
	if err := path.Parse("{" + c.path + "}"); err != nil {
		return nil
	}
	results, err := path.FindResults(obj)
	if err != nil || len(results) == 0 || len(results[0]) == 0 {
		return nil
	}
	switch v := results[0][0].Interface(); c.Type {
	case "integer":
		switch n := v.(type) {
		case int64:
			return n
		case float64:
			return int64(n)
		}
		return nil
	case "number":
		switch n := v.(type) {
		case int64:
			return float64(n)
		case float64:
			return n
		}
		return nil
	case "boolean":
		if b, ok := v.(bool); ok {
			return b
		}
		return nil
	case "date":
		s, _ := v.(string)
		if t, err := time.Parse(time.RFC3339, s); err == nil {
			return age(metav1.NewTime(t))
		}
		return "<invalid>"
	case "string":
		if len(results[0]) == 1 {
			return fmt.Sprint(v)
		}
		var text bytes.Buffer
		if err := path.PrintResults(&text, results[0]); err != nil {
			return nil
		}
		return text.String()
	}
	return nil
}
