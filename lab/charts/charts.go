package charts

import (
	"embed"
	"fmt"
	"io/fs"
	"os"
	"path/filepath"
)

//go:embed all:cert-manager all:ceph-csi-cephfs all:cilium all:csi-driver-nfs all:dcgm-exporter all:fleet all:fleet-crd
//go:embed all:jupyterhub all:kube-prometheus-stack all:local-path-provisioner all:longhorn all:metallb all:rancher all:velero
var files embed.FS

// Files are the charts, a folder each, unpacked.
func Files() fs.FS { return files }

// Write writes the charts into dir, which is made anew: what an older lab left there goes.
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
	return nil
}
