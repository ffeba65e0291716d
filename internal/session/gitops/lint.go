package gitops

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"io/fs"
	"os"
	"path/filepath"
	"slices"
	"strings"

	"k8s.io/apimachinery/pkg/api/meta"
	"sigs.k8s.io/yaml"

	"github.com/cps-gpu/homelab/fleet/lint"
	"github.com/cps-gpu/homelab/internal/console"
	"github.com/cps-gpu/homelab/internal/keep"
	"github.com/cps-gpu/homelab/internal/platform"
	"github.com/cps-gpu/homelab/internal/session"
	"github.com/cps-gpu/homelab/kube/addon"
	"github.com/cps-gpu/homelab/kube/helm"
)

// Lint finds mistakes in any Fleet repository. It needs no cluster file. Exit code 1 means
// that there are errors.
func Lint(ctx context.Context, f LintFlags) error {
	c := console.New(f.JSON)
	dir := f.Dir
	if dir == "" {
		dir = "."
	}
	info, err := os.Stat(dir)
	if err != nil || !info.IsDir() {
		return session.Invalid("-dir=%s: there is no such folder", dir)
	}
	o, least, err := f.options()
	if err != nil {
		return session.Invalid("%w", err)
	}
	if o.Site, err = siteOf(f.Spec, c); err != nil {
		return err
	}
	root, err := os.OpenRoot(dir) // links out of the folder are not followed
	if err != nil {
		return session.Invalid("%w", err)
	}
	defer func() { _ = root.Close() }()
	r, err := lint.Run(ctx, root.FS(), o)
	if err != nil {
		return err
	}
	if len(o.Paths) > 0 && r.Bundles == 0 {
		return session.Invalid("-paths=%s: Fleet finds nothing to deploy there", f.Paths)
	}
	if f.SARIF != "" {
		if err := writeSARIF(f.SARIF, dir, r); err != nil {
			return err
		}
	}
	return report(c, r, least)
}

// siteOf is the cluster of a file, as far as it concerns a repository: with the namespaces of its parts, of people's queues
// and shares, and of databases.
func siteOf(file string, c *console.Console) (*lint.Site, error) {
	if file == "" {
		return nil, nil
	}
	s, err := session.Load(session.Options{Spec: file, Console: c})
	if err != nil {
		return nil, err
	}
	pieces, err := platform.Pieces(s.Spec, false)
	if err != nil {
		return nil, err
	}
	out := &lint.Site{}
	for _, p := range pieces {
		if p.Release != nil {
			out.Namespaces = append(out.Namespaces, p.Release.Namespace)
		}
		for _, secret := range p.Secrets {
			out.Namespaces = append(out.Namespaces, secret.Namespace)
		}
		for _, o := range slices.Concat(p.Before, p.After) {
			if m, err := meta.Accessor(o); err == nil && addon.IsNamespace(o) {
				out.Namespaces = append(out.Namespaces, m.GetName())
			} else if err == nil {
				out.Namespaces = append(out.Namespaces, m.GetNamespace())
			}
		}
	}
	if strings.Contains(fmt.Sprint(s.Spec.K3s.ServerConfig), "Toleration") {
		return out, nil // an admission plugin such as ExtendedResourceToleration, which adds them
	}
	for _, n := range s.Spec.GPUNodes() {
		out.GPUTaints = append(out.GPUTaints, addon.TaintsOf(n))
	}
	return out, nil
}

// report prints what is at least so severe, and returns an error if something must be fixed.
func report(c *console.Console, r *lint.Report, least lint.Severity) (err error) {
	shown := r.AtLeast(least)
	if c.JSON {
		err = shown.JSON(c.Data)
	} else if err = shown.Text(c.Data); err == nil {
		c.Printf("%s", r.Summary())
	}
	if n := r.Count(lint.Failure); err == nil && n > 0 {
		return &session.Error{Code: 1, Err: fmt.Errorf("fleet:lint: %d of these must be fixed", n)}
	}
	return err
}

func (f LintFlags) options() (o lint.Options, least lint.Severity, err error) {
	least, ok := map[string]lint.Severity{"info": lint.Info, "": lint.Warning, "warning": lint.Warning, "error": lint.Failure}[f.Level]
	if !ok {
		return o, least, fmt.Errorf("-level=%s: write info, warning or error", f.Level)
	}
	o.GitRepo, o.Paths, o.Elsewhere, o.Releases, o.Online = f.Repo, commas(f.Paths), commas(f.Elsewhere), commas(f.Releases), f.Online
	if f.Charts != "" {
		if info, err := os.Stat(f.Charts); err != nil || !info.IsDir() {
			return o, least, fmt.Errorf("-charts=%s: there is no such folder", f.Charts)
		}
		o.Charts = &helm.Source{Folder: f.Charts, Offline: !f.Online}
	}
	o.Clusters, err = lintClusters(f.Clusters)
	return o, least, err
}

func commas(s string) (out []string) {
	for _, part := range strings.Split(s, ",") {
		if part = strings.TrimSpace(part); part != "" {
			out = append(out, part)
		}
	}
	return out
}

// lintClusters reads the file that -clusters names, or treats the value as names.
func lintClusters(s string) (out []lint.Cluster, err error) {
	data, err := os.ReadFile(s)
	if errors.Is(err, fs.ErrNotExist) && !strings.ContainsAny(s, "./\\") {
		for _, name := range commas(s) {
			out = append(out, lint.Cluster{Name: name})
		}
		return out, nil
	}
	if err != nil {
		return nil, fmt.Errorf("-clusters: %w", err)
	}
	if err := yaml.UnmarshalStrict(data, &out); err != nil {
		return nil, fmt.Errorf("-clusters=%s: write a list of {name: …, labels: {…}, groups: […]}: %w", s, err)
	}
	return out, nil
}

// prefixFrom is the path of dir from the current folder, if dir is below it, else nothing.
func prefixFrom(dir string) string {
	prefix := filepath.ToSlash(filepath.Clean(dir)) + "/"
	if prefix == "./" || filepath.IsAbs(dir) || strings.HasPrefix(prefix, "../") {
		return ""
	}
	return prefix
}

// writeSARIF writes the report with paths from the current folder, if dir is in it, because
// code hosts expect paths from the repository's root.
func writeSARIF(file, dir string, r *lint.Report) error {
	var out bytes.Buffer
	if err := r.SARIF(&out, prefixFrom(dir)); err != nil {
		return err
	}
	if err := keep.WriteFile(file, out.Bytes(), 0o644); err != nil {
		return session.Invalid("-sarif: %w", err)
	}
	return nil
}
