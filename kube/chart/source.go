package chart

import (
	"context"
	"errors"
	"fmt"
	"net"
	"net/http"
	"os"
	"path/filepath"
	"slices"
	"strings"

	"helm.sh/helm/v3/pkg/chart"
	"helm.sh/helm/v3/pkg/chart/loader"
)

// Source finds charts. The zero Source asks the repositories that releases name.
//
// A chart is looked for in Folder, then among earlier downloads, then in the
// release's own repository. Folder holds archives, NAME-VERSION.tgz, or unpacked
// charts, NAME-VERSION/ or NAME/, as `helm pull` leaves them.
type Source struct {
	Folder     string // folder of charts; asked first; empty: none
	AnyVersion bool   // take a chart from Folder whatever its version: for trying with what one has
	Offline    bool   // ask nothing but Folder and Cache
	Cache      string // where downloads are kept; empty: homelab/charts in the user's cache folder

	// Digests are those of archives by the charts' names, sha256:…, in place of what
	// package pins knows. A download without a known one is taken as it comes, and its
	// digest is said; what lies in Folder is its owner's, and not compared.
	Digests map[string]string

	Dial func(ctx context.Context, network, addr string) (net.Conn, error) // nil: directly, or through the environment's proxy
	Wrap func(http.RoundTripper) http.RoundTripper                         // around every request; may be nil
}

// NotFoundError is a chart that could not be had from any place.
type NotFoundError struct {
	Chart, Version string
	Places         []string // where it was looked for, with what came of it
	Err            error    // the last failure, nil where the places simply have no such chart
}

// Error names the chart, the places, and what to do.
func (e *NotFoundError) Error() string {
	asked := "no place to look for it: the release names no repository, and no folder of charts is given"
	if len(e.Places) > 0 {
		asked = strings.Join(e.Places, "; ")
	}
	return fmt.Sprintf("chart %s %s: %s: mend the repository or the way there, or put %s into the folder of charts",
		e.Chart, e.Version, asked, archive(e.Chart, e.Version))
}

// Unwrap returns the last failure.
func (e *NotFoundError) Unwrap() error { return e.Err }

// load reads the chart that a release names.
func (s Source) load(ctx context.Context, r Release) (*chart.Chart, error) {
	if r.Chart == "" || r.Version == "" {
		return nil, fmt.Errorf("release %s/%s: the chart and its exact version must be named", r.Namespace, r.Name)
	}
	missing := &NotFoundError{Chart: r.Chart, Version: r.Version}
	if s.Folder != "" {
		path, err := s.inFolder(r)
		if err != nil {
			return nil, err
		}
		if path != "" {
			return s.read(path, r)
		}
		missing.Places = append(missing.Places, "folder "+s.Folder+" has "+s.offer(r.Chart))
	}
	if r.Repo == "" {
		return nil, missing
	}
	cached, err := s.cached(r)
	if err != nil {
		return nil, err
	}
	digest := s.digest(r)
	if _, err := os.Stat(cached); err == nil {
		// One that cannot be read, after a full disk for example, is fetched again; so is
		// one that is not what it should be.
		ch, err := s.kept(cached, r, digest)
		if err == nil || s.Offline {
			return ch, err
		}
	}
	if s.Offline {
		missing.Places = append(missing.Places, "it is not among earlier downloads, and we are offline")
		return nil, missing
	}
	if err := s.fetch(ctx, r, cached, digest); err != nil {
		var no *noVersionError
		if ctx.Err() != nil {
			return nil, fmt.Errorf("chart %s %s: %w", r.Chart, r.Version, err)
		}
		missing.Places = append(missing.Places, err.Error())
		if !errors.As(err, &no) {
			missing.Err = err
		}
		return nil, missing
	}
	return s.read(cached, r)
}

// kept reads an earlier download.
func (s Source) kept(path string, r Release, digest string) (*chart.Chart, error) {
	if digest != "" {
		data, err := os.ReadFile(path)
		if err != nil {
			return nil, fmt.Errorf("chart %s: %w", path, err)
		}
		if have := digestOf(data); have != digest {
			return nil, fmt.Errorf("chart %s has the digest %s, and %s was expected: take the file away, and it is fetched again", path, have, digest)
		}
	}
	return s.read(path, r)
}

func archive(name, version string) string { return name + "-" + version + ".tgz" }

// inFolder returns where Folder has the chart, or nothing.
func (s Source) inFolder(r Release) (string, error) {
	if _, err := os.Stat(s.Folder); err != nil {
		return "", fmt.Errorf("folder of charts: %w", err)
	}
	bare := strings.TrimPrefix(r.Version, "v")
	for _, name := range []string{
		archive(r.Chart, r.Version), archive(r.Chart, bare), archive(r.Chart, "v"+bare),
		r.Chart + "-" + r.Version, r.Chart + "-" + bare, r.Chart,
	} {
		path := filepath.Join(s.Folder, name)
		info, err := os.Stat(path)
		if err != nil {
			continue
		}
		if _, err := os.Stat(filepath.Join(path, "Chart.yaml")); info.IsDir() && err != nil {
			continue
		}
		return path, nil
	}
	if !s.AnyVersion {
		return "", nil
	}
	if others := s.archives(r.Chart); len(others) > 0 {
		return others[len(others)-1], nil
	}
	return "", nil
}

// archives returns Folder's archives of a chart, by name.
func (s Source) archives(name string) []string {
	all, _ := filepath.Glob(filepath.Join(s.Folder, name+"-*.tgz"))
	return slices.DeleteFunc(all, func(path string) bool {
		rest := strings.TrimPrefix(strings.TrimPrefix(filepath.Base(path), name+"-"), "v")
		return rest == "" || rest[0] < '0' || rest[0] > '9' // another chart whose name begins so
	})
}

// offer says what Folder has of a chart.
func (s Source) offer(name string) string {
	others := s.archives(name)
	for i, path := range others {
		others[i] = filepath.Base(path)
	}
	if len(others) == 0 {
		return "no chart of this name"
	}
	return strings.Join(others, ", ") + " only"
}

// read loads a chart from disk and checks that it is the one that was asked for.
func (s Source) read(path string, r Release) (*chart.Chart, error) {
	ch, err := loader.Load(path)
	if err != nil {
		return nil, fmt.Errorf("chart %s: %w", path, err)
	}
	m := ch.Metadata
	if m.Name != r.Chart {
		return nil, fmt.Errorf("chart %s is called %s in its Chart.yaml, not %s", path, m.Name, r.Chart)
	}
	if strings.TrimPrefix(m.Version, "v") != strings.TrimPrefix(r.Version, "v") && !s.AnyVersion {
		return nil, fmt.Errorf("chart %s is version %s, and %s was asked for: put that version there, or allow any", path, m.Version, r.Version)
	}
	if m.Type == "library" {
		return nil, fmt.Errorf("chart %s is a library: other charts use it, and it cannot be installed", path)
	}
	return ch, complete(ch, path)
}

// complete checks that the charts that a chart depends on are inside it.
func complete(ch *chart.Chart, path string) error {
	have := map[string]bool{}
	for _, d := range ch.Dependencies() {
		have[d.Name()] = true
	}
	var missing []string
	for _, d := range ch.Metadata.Dependencies {
		if !have[d.Name] {
			missing = append(missing, d.Name+" "+d.Version)
		}
	}
	if len(missing) > 0 {
		return fmt.Errorf("chart %s lacks charts that it depends on: %s: run helm dependency build %s", path, strings.Join(missing, ", "), path)
	}
	return nil
}
