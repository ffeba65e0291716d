package lint_test

import (
	"context"
	"fmt"
	"testing/fstest"

	"github.com/cps-gpu/homelab/fleet/lint"
)

func ExampleRun() {
	repository := fstest.MapFS{ // os.DirFS("path/to/repository")
		"apps/web/fleet.yaml": {Data: []byte("defaultNamespace: web\ndependOn:\n- name: database\n")},
		"apps/web/web.yaml":   {Data: []byte("apiVersion: v1\nkind: ConfigMap\nmetadata:\n  name: web\n")},
	}
	report, err := lint.Run(context.Background(), repository, lint.Options{})
	if err != nil {
		panic(err)
	}
	for _, f := range report.Findings {
		fmt.Println(f)
	}
	fmt.Println(report.Summary())
	// Output:
	// apps/web/fleet.yaml:2:1: error: fleet.yaml knows no key "dependOn": it is dropped silently; did you mean "dependsOn"? [unknown-key]
	// 1 bundle in 2 files: 1 error, 0 warnings
}

func ExampleReadBundles() {
	repository := fstest.MapFS{
		"apps/web/fleet.yaml": {Data: []byte("defaultNamespace: web\n")},
		"apps/web/web.yaml":   {Data: []byte("apiVersion: v1\nkind: ConfigMap\nmetadata:\n  name: web\n")},
	}
	bundles, err := lint.ReadBundles(repository, lint.BundleScan{GitRepo: "lab", Paths: []string{"apps/*"}})
	if err != nil {
		panic(err)
	}
	fmt.Println(bundles[0].Name, bundles[0].YAML.DefaultNamespace, len(bundles[0].Resources))
	// Output: lab-apps-web web 1
}
