package facts

import (
	"bytes"
	"encoding/json"
	"errors"
	"io/fs"
	"os"
	"os/exec"
	"testing"

	"sigs.k8s.io/yaml"
)

// The variables.
const (
	// Folder names the folder of full sources.
	Folder = "HOMELAB_FACTS"
	// RealCharts names a folder of whole charts, unpacked, as `helm pull --untar` leaves them.
	RealCharts = "HOMELAB_CHARTS"
	// NoCharts says that there are none: .ci/run sets it if it has no such folder.
	NoCharts = "HOMELAB_NO_CHARTS"
)

// Load returns the facts in file. If there are full sources, reduce's result must be equal;
// with update it is written.
func Load(t testing.TB, file string, update bool, reduce func(full fs.FS) ([]byte, error)) []byte {
	t.Helper()
	Compare(t, file, update, reduce)
	kept, err := os.ReadFile(file)
	if err != nil {
		t.Fatal(err)
	}
	return kept
}

// Compare is the half of Kept that needs the full sources: without them it does nothing.
func Compare(t testing.TB, file string, update bool, reduce func(full fs.FS) ([]byte, error)) {
	t.Helper()
	folder := os.Getenv(Folder)
	if folder == "" {
		return
	}
	want, err := reduce(os.DirFS(folder))
	if err != nil {
		t.Fatal(err)
	}
	if update {
		if err := os.WriteFile(file, want, 0o644); err != nil { //nolint:gosec // of this repository
			t.Fatal(err)
		}
	}
	kept, err := os.ReadFile(file)
	if err != nil && !errors.Is(err, fs.ErrNotExist) {
		t.Fatal(err)
	}
	if !bytes.Equal(kept, want) {
		t.Errorf("%s is not what the sources in %s say: run this test with -update, and read what has changed", file, folder)
	}
}

// Charts returns the folder of whole charts: the named one, or else the variable's. Without
// one the test is skipped; in CI it fails, unless NoCharts is set.
func Charts(t testing.TB, named string) string {
	t.Helper()
	if named == "" {
		named = os.Getenv(RealCharts)
	}
	switch {
	case named != "":
	case os.Getenv("CI") != "" && os.Getenv(NoCharts) == "":
		t.Fatalf("no real charts: name a folder with -charts or %s, or set %s=1", RealCharts, NoCharts)
	default:
		t.Skipf("SKIPPED: no real charts, neither by -charts=FOLDER nor by %s", RealCharts)
	}
	return named
}

// Keys reduces a chart's values.yaml to its keys and the kinds of their values.
func Keys(values []byte) ([]byte, error) {
	var doc any
	if err := yaml.Unmarshal(values, &doc); err != nil {
		return nil, err
	}
	return yaml.Marshal(kinds(doc))
}

func kinds(v any) any {
	switch v := v.(type) {
	case map[string]any:
		if len(v) == 0 {
			return "map"
		}
		out := map[string]any{}
		for key, value := range v {
			out[key] = kinds(value)
		}
		return out
	case []any:
		return "list"
	case string:
		return "text"
	case bool:
		return "bool"
	case nil:
		return "nothing"
	}
	return "number"
}

// Schema reduces a JSON schema to what it allows. A partial one is for documents that are
// merged over defaults, such as a chart's values: it omits required keys.
func Schema(raw []byte, partial bool) ([]byte, error) {
	var doc any
	if err := json.Unmarshal(raw, &doc); err != nil {
		return nil, err
	}
	var out bytes.Buffer
	e := json.NewEncoder(&out)
	e.SetEscapeHTML(false)
	e.SetIndent("", " ")
	err := e.Encode(slim(doc, partial))
	return out.Bytes(), err
}

// slim removes descriptions from a schema.
func slim(v any, partial bool) any {
	switch v := v.(type) {
	case []any:
		out := make([]any, len(v))
		for i, e := range v {
			out[i] = slim(e, partial)
		}
		return out
	case map[string]any:
		out := map[string]any{}
		for key, value := range v {
			switch key {
			case "description", "markdownDescription", "title", "examples", "default", "$comment", "label",
				"deprecated_description", "changed_description", "new_description":
				continue
			case "required":
				if partial {
					continue
				}
			case "properties", "patternProperties", "definitions", "$defs", "dependentSchemas", "dependencies":
				if names, ok := value.(map[string]any); ok { // keys of the document, of any name
					below := map[string]any{}
					for name, schema := range names {
						below[name] = slim(schema, partial)
					}
					value = below
				}
				out[key] = value
				continue
			case "enum", "const":
				out[key] = value
				continue
			case "if", "not", "oneOf", "anyOf":
				out[key] = slim(value, false) // there it distinguishes cases
				continue
			}
			out[key] = slim(value, partial)
		}
		return out
	}
	return v
}

// Program returns the path of a program of this machine. If it is missing the test is skipped;
// in CI, which installs its package, the test fails.
func Program(t testing.TB, name, pkg string) string {
	t.Helper()
	path, err := exec.LookPath(name)
	if err == nil {
		return path
	}
	if os.Getenv("CI") != "" {
		t.Fatalf("%s is not installed: apt-get install %s", name, pkg)
	}
	t.Skipf("SKIPPED: %s is not installed: apt-get install %s", name, pkg)
	return ""
}

// Root skips a test that only root can run; in CI, which is root, it fails instead.
func Root(t testing.TB, why string) {
	t.Helper()
	if os.Getuid() == 0 {
		return
	}
	if os.Getenv("CI") != "" {
		t.Fatalf("CI tests this as root: %s", why)
	}
	t.Skipf("SKIPPED: not root: %s", why)
}
