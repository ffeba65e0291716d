// Package kustomization prepares a kustomization that is not trusted, to build it in memory:
// nothing in it runs a program or asks a server.
package kustomization

import (
	"fmt"
	"maps"
	"regexp"
	"slices"
	"strings"

	"sigs.k8s.io/kustomize/api/types"
	"sigs.k8s.io/kustomize/kyaml/filesys"
	"sigs.k8s.io/yaml"
)

// text are keys of a kustomization whose text is never a file or an address.
var text = map[string]bool{
	"literals": true, "commonAnnotations": true, "commonLabels": true, "labels": true, "metadata": true, "images": true, "imageTags": true,
	"replicas": true, "generatorOptions": true, "options": true, "target": true, "patch": true, "apiVersion": true, "kind": true,
	"namespace": true, "namePrefix": true, "nameSuffix": true, "vars": true, "targets": true, "source": true, "sortOptions": true,
}

// reach are keys that run programs, load plugins, or change kustomize's knowledge of
// all objects, in any case, as kustomize decodes them.
var reach = []string{"generators", "transformers", "validators", "helmcharts", "helmchartinflationgenerator", "helmglobals", "openapi", "inventory"}

// remote matches what kustomize treats as a remote place: api/internal/git/repospec.go
// NewRepoSpecFromURL and api/internal/loader/fileloader.go IsRemoteFile at v0.21.1.
var remote = regexp.MustCompile(`(?i)^(git::)?([a-z][a-z0-9+.-]*://|[a-z][a-z0-9-]*@|github\.com[/:]|https?:)|=(https?:|[a-z]+://)`)

// onOthers are the keys of a modern kustomization that change objects which it does not bring.
var onOthers = []string{"patches", "replacements", "vars", "images", "replicas"}

// Plain returns a kustomization as JSON without deprecated keys, about which
// kustomize warns on stderr, or why it is not built here. On a chart it is without the keys that
// work on the chart's output.
func Plain(name string, data []byte, onChart bool) (plain []byte, opaque string) {
	var k map[string]any
	if err := yaml.Unmarshal(data, &k); err != nil {
		return nil, name + " is not a kustomization"
	}
	for key, v := range k {
		if slices.Contains(reach, strings.ToLower(key)) && v != nil {
			return nil, fmt.Sprintf("%s has %s, which is not run here", name, key)
		}
	}
	if ref := elsewhere(k, false); ref != "" {
		return nil, fmt.Sprintf("%s takes from %s, which is not fetched", name, ref)
	}
	if !slices.ContainsFunc(slices.Sorted(maps.Keys(k)), func(key string) bool { return key != "apiVersion" && key != "kind" }) {
		return data, "" // empty, which kustomize refuses
	}
	modern(k)
	if onChart {
		for _, key := range onOthers {
			delete(k, key)
		}
	}
	k["buildMetadata"] = []string{types.OriginAnnotations}
	data, err := yaml.Marshal(k)
	if err != nil {
		return nil, name + " cannot be written out"
	}
	return data, ""
}

// elsewhere finds a text that refers to something outside the bundle.
func elsewhere(v any, inline bool) string {
	switch v := v.(type) {
	case string:
		if (!inline || !strings.Contains(v, "\n")) && remote.MatchString(strings.TrimSpace(v)) {
			return v
		}
	case []any:
		for _, item := range v {
			if ref := elsewhere(item, inline); ref != "" {
				return ref
			}
		}
	case map[string]any:
		for _, key := range slices.Sorted(maps.Keys(v)) {
			if text[key] {
				continue
			}
			if ref := elsewhere(v[key], key == "patchesStrategicMerge"); ref != "" {
				return ref
			}
		}
	}
	return ""
}

// modern moves deprecated keys to where `kustomize edit fix` puts them.
func modern(k map[string]any) {
	list := func(key string) []any { l, _ := k[key].([]any); return l }
	move := func(from, to string, each func(any) any) {
		if old := list(from); len(old) > 0 {
			for _, item := range old {
				k[to] = append(list(to), each(item))
			}
			delete(k, from)
		}
	}
	same := func(v any) any { return v }
	move("bases", "resources", same)
	move("imageTags", "images", same)
	move("patchesJson6902", "patches", same)
	move("patchesStrategicMerge", "patches", func(v any) any {
		if text, _ := v.(string); strings.Contains(text, "\n") {
			return map[string]any{"patch": text}
		}
		return map[string]any{"path": v}
	})
	if common, ok := k["commonLabels"].(map[string]any); ok {
		k["labels"] = append(list("labels"), map[string]any{"pairs": common, "includeSelectors": true})
		delete(k, "commonLabels")
	}
}

// AddResource adds a file to the resources of a kustomization.
func AddResource(fsys filesys.FileSystem, name, file string) error {
	data, err := fsys.ReadFile(name)
	if err != nil {
		return err
	}
	k := map[string]any{}
	if err := yaml.Unmarshal(data, &k); err != nil {
		return err
	}
	list, _ := k["resources"].([]any)
	k["resources"] = append(list, file)
	if data, err = yaml.Marshal(k); err != nil {
		return err
	}
	return fsys.WriteFile(name, data)
}
