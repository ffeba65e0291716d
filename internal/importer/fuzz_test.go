package importer

import (
	"errors"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"
)

// importable adds the testdata with an ending as seeds.
func importable(f *testing.F, patterns ...string) {
	f.Helper()
	for _, p := range patterns {
		files, err := filepath.Glob(filepath.Join("testdata", p))
		require.NoError(f, err)
		require.NotEmpty(f, files, p)
		for _, file := range files {
			data, err := os.ReadFile(file)
			require.NoError(f, err)
			f.Add(data)
		}
	}
}

// survives imports one file: no panic, the text is YAML that package clusterfile reads or whose lacks are told, and each
// setting is told.
func survives(t *testing.T, name string, data []byte) {
	t.Helper()
	s := &sources{}
	var err error
	if strings.HasSuffix(name, ".tfvars") {
		body, parseErr := parseHCL(name, data)
		if parseErr == nil {
			s.module.assign(tfvars(name, body))
		}
		err = parseErr
	} else {
		err = s.add(name, data, true)
	}
	if err != nil {
		require.True(t, errors.As(err, new(*ReadError)), "%v", err)
		return
	}
	s.module.evaluate()
	r := Options{}.draft(s, "cluster.yaml")
	told(t, r)
	for _, p := range r.Missing {
		assert.NotContains(t, p.What, "YAML", r.Text)
	}
}

func FuzzVariables(f *testing.F) {
	importable(f, "*/*.tfvars", "*/*/*.tfvars")
	f.Add([]byte(`worker_ips = ["10.0.0.1/24", null, {}]` + "\n" + `nodes = { "" = { ip = "1.2.3.4" }, "a.b" = { ip = "::1", disks = { x = { size = 1 } } } }`))
	f.Fuzz(func(t *testing.T, data []byte) { survives(t, "terraform.tfvars", data) })
}

func FuzzModule(f *testing.F) {
	importable(f, "*/*.tf", "*/*/*.tf")
	f.Fuzz(func(t *testing.T, data []byte) { survives(t, "main.tf", data) })
}

func FuzzInventoryINI(f *testing.F) {
	importable(f, "*/*/*.ini")
	f.Add([]byte("[masters]\na[01:03].b ansible_host='10.0.0.1' x=\"y\"\n[masters:vars]\nvip=10.0.0.9\n"))
	f.Fuzz(func(t *testing.T, data []byte) { survives(t, "hosts.ini", data) })
}

func FuzzYAML(f *testing.F) {
	importable(f, "*/*.yaml", "*/*/*.yaml")
	f.Fuzz(func(t *testing.T, data []byte) { survives(t, "hosts.yaml", data) })
}

func FuzzGroupVars(f *testing.F) {
	importable(f, "*/*/group_vars/*.yml")
	f.Fuzz(func(t *testing.T, data []byte) { survives(t, "group_vars/all.yml", data) })
}

func FuzzEnv(f *testing.F) {
	importable(f, "*/*.env")
	f.Fuzz(func(t *testing.T, data []byte) { survives(t, "a.env", data) })
}
