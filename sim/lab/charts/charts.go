package charts

import (
	"embed"
	"encoding/json"
	"fmt"
	"io/fs"
	"os"
	"path"
	"path/filepath"
	"strings"
)

//go:embed all:argo-cd all:cert-manager all:ceph-csi-cephfs all:cilium all:cloudnative-pg all:csi-driver-nfs all:dcgm-exporter all:external-dns all:fleet all:fleet-crd all:flux2
//go:embed all:gpu-operator all:jupyterhub all:kube-prometheus-stack all:kueue all:local-path-provisioner all:longhorn all:metallb all:rancher all:velero all:victoria-logs-collector all:victoria-logs-single
//go:embed all:plugin-barman-cloud all:proxmox-csi-plugin
var files embed.FS

// pinned are the charts that homelab installs: go test ./sim/lab/charts -update.
//
//go:embed pins.json
var pinned []byte

// Pin is a chart that homelab installs.
type Pin struct{ Chart, Version string }

// Pins are the charts by the names of their parts.
func Pins() map[string]Pin {
	var out map[string]Pin
	if err := json.Unmarshal(pinned, &out); err != nil {
		panic(err) // a test has read it
	}
	return out
}

// Files are the unpacked charts, a folder each.
func Files() fs.FS { return files }

// Write writes the charts to dir, which it recreates without files of an older lab.
func Write(dir string) error {
	if err := os.RemoveAll(dir); err != nil {
		return fmt.Errorf("charts: %w", err)
	}
	if err := os.MkdirAll(filepath.Dir(dir), 0o700); err != nil {
		return fmt.Errorf("charts: %w", err)
	}
	if err := os.CopyFS(dir, files); err != nil {
		return fmt.Errorf("charts: %w", err)
	}
	for part, pin := range Pins() {
		if _, err := fs.Stat(files, pin.Chart); err == nil {
			continue
		}
		for name, text := range Driver(part, pin.Chart, pin.Version) {
			at := filepath.Join(dir, pin.Chart, filepath.FromSlash(name))
			if err := os.MkdirAll(filepath.Dir(at), 0o700); err != nil {
				return fmt.Errorf("charts: %w", err)
			}
			if err := os.WriteFile(at, text, 0o600); err != nil {
				return fmt.Errorf("charts: %w", err)
			}
		}
	}
	return nil
}

// Of returns the files of a chart, by their names in its folder.
func Of(name string) (map[string][]byte, error) {
	out := map[string][]byte{}
	for part, pin := range Pins() {
		if _, err := fs.Stat(files, name); pin.Chart == name && err != nil {
			return Driver(part, name, pin.Version), nil
		}
	}
	if !fs.ValidPath(name) || path.Base(name) != name {
		return nil, fmt.Errorf("the lab has no chart %q", name)
	}
	err := fs.WalkDir(files, name, func(at string, e fs.DirEntry, err error) error {
		if err != nil || e.IsDir() {
			return err
		}
		out[strings.TrimPrefix(at, name+"/")], err = files.ReadFile(at)
		return err
	})
	if err != nil {
		return nil, fmt.Errorf("the lab has no chart %q: %w", name, err)
	}
	return out, nil
}

// Driver is the stand-in for the chart of a part that has none of its own here: one program, which
// makes the volumes of the part's storage classes.
func Driver(part, chart, version string) map[string][]byte {
	return map[string][]byte{
		"Chart.yaml":            fmt.Appendf(nil, "{apiVersion: v2, name: %s, version: %s, description: Stand-in of the lab}\n", chart, version),
		"values.yaml":           []byte("{}\n"),
		"templates/driver.yaml": fmt.Appendf(nil, driver, part),
	}
}

const driver = `apiVersion: apps/v1
kind: Deployment
metadata: {name: {{ .Release.Name }}-driver, namespace: {{ .Release.Namespace }}, labels: {app: {{ .Release.Name }}-driver}}
spec:
  selector: {matchLabels: {app: {{ .Release.Name }}-driver}}
  template:
    metadata: {labels: {app: {{ .Release.Name }}-driver}}
    spec:
      tolerations: [{operator: Exists}]
      containers: [{name: driver, image: "homelab.lab/driver:1", args: ["--part=%s"]}]
`
