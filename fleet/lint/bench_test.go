package lint

import (
	"fmt"
	"strings"
	"testing"
	"testing/fstest"

	"github.com/stretchr/testify/require"
)

// repository35 is a repository of 35 bundles like those of a grown cluster: two in
// three are charts with values of a few hundred lines, the rest manifests, among
// them the definitions of an operator.
func repository35() fstest.MapFS {
	m := fstest.MapFS{}
	put := func(name, text string) { m[name] = &fstest.MapFile{Data: []byte(text)} }
	for i := range 35 {
		dir := fmt.Sprintf("clusters/lab/%02d-app", i)
		depends := ""
		if i > 0 {
			depends = fmt.Sprintf("dependsOn:\n- name: app-%02d\n  acceptedStates: [Ready, Modified]\n", i-1)
		}
		head := fmt.Sprintf("name: app-%02d\ndefaultNamespace: app-%02d\nlabels: {tier: app}\n%s", i, i, depends)
		if i%3 != 0 {
			put(dir+"/fleet.yaml", head+fmt.Sprintf("helm:\n  repo: https://charts.example.com\n  chart: app-%02d\n  version: 1.2.%d\n  timeoutSeconds: 600\n  valuesFiles: [values.yaml]\n", i, i)+
				"diff:\n  comparePatches:\n  - apiVersion: apps/v1\n    kind: Deployment\n    name: web\n    jsonPointers: [/spec/replicas]\n")
			put(dir+"/values.yaml", benchValues(300, i))
			continue
		}
		put(dir+"/fleet.yaml", head)
		for j := range 12 {
			put(fmt.Sprintf("%s/web-%d.yaml", dir, j), benchWorkload(i, j))
		}
		put(dir+"/crds.yaml", benchDefinition(60))
		put(dir+"/README.md", strings.Repeat("words\n", 200))
	}
	return m
}

func benchValues(lines, seed int) string {
	var b strings.Builder
	for i := range lines / 6 {
		fmt.Fprintf(&b, "section%d:\n  enabled: true # as it was\n  image:\n    repository: registry.example.com/app-%d\n    tag: \"1.%d\"\n  args: [--verbose, --port=80]\n", i, seed, i)
	}
	return b.String()
}

func benchWorkload(i, j int) string {
	return fmt.Sprintf(`apiVersion: apps/v1
kind: Deployment
metadata:
  name: web-%[1]d-%[2]d
  labels: {app: web}
spec:
  replicas: 2
  selector:
    matchLabels: {app: web}
  template:
    metadata:
      labels: {app: web}
    spec:
      tolerations:
      - {key: nvidia.com/gpu, operator: Exists, effect: NoSchedule}
      containers:
      - name: web
        image: registry.example.com/web:1.2.%[2]d
        env:
        - {name: A, value: "1"}
        - {name: B, value: "2"}
        resources:
          requests: {cpu: 100m, memory: 128Mi}
          limits: {memory: 256Mi}
        livenessProbe:
          httpGet: {path: /healthz, port: 8080}
---
apiVersion: v1
kind: Service
metadata:
  name: web-%[1]d-%[2]d
spec:
  selector: {app: web}
  ports:
  - {name: http, port: 80, targetPort: 8080}
---
apiVersion: v1
kind: ConfigMap
metadata:
  name: web-%[1]d-%[2]d
data:
  config.yaml: |
    listen: :8080
    verbose: true
`, i, j)
}

func benchDefinition(fields int) string {
	var b strings.Builder
	b.WriteString("apiVersion: apiextensions.k8s.io/v1\nkind: CustomResourceDefinition\nmetadata:\n  name: shops.example.com\nspec:\n  group: example.com\n  scope: Namespaced\n  names: {kind: Shop, plural: shops}\n  versions:\n  - name: v1\n    served: true\n    storage: true\n    schema:\n      openAPIV3Schema:\n        type: object\n        properties:\n          spec:\n            type: object\n            properties:\n")
	for i := range fields {
		fmt.Fprintf(&b, "              field%d:\n                description: What it is about, in a sentence or two of words.\n                type: object\n                properties:\n                  a: {type: string}\n                  b: {type: integer, minimum: 1}\n", i)
	}
	return b.String()
}

// The benchmark lints what is good but for its definitions, which are all one.
func TestLintBenchmarkRepositoryIsGood(t *testing.T) {
	r, err := Run(t.Context(), repository35(), Options{})
	require.NoError(t, err)
	require.Equal(t, 35, r.Bundles)
	for _, f := range r.Findings {
		require.Equal(t, "duplicate-object", f.Rule, "%s", f)
	}
}

func BenchmarkLint35Bundles(b *testing.B) {
	repo := repository35()
	size := 0
	for _, f := range repo {
		size += len(f.Data)
	}
	b.SetBytes(int64(size))
	for b.Loop() {
		if _, err := Run(b.Context(), repo, Options{}); err != nil {
			b.Fatal(err)
		}
	}
}
