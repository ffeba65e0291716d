package helm

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"net"
	"net/http"
	"os"
	"strings"
	"sync"

	helmchart "helm.sh/helm/v3/pkg/chart"
	"helm.sh/helm/v3/pkg/chart/loader"

	"github.com/cps-gpu/homelab/converge"
	"github.com/cps-gpu/homelab/internal/printable"
	"github.com/cps-gpu/homelab/kube/chart"
)

// Source finds charts. The zero Source asks the repositories that releases name.
//
// A chart is looked for in Folder, then among earlier downloads, then in the
// release's own repository. Folder holds archives, NAME-VERSION.tgz, or unpacked
// charts, NAME-VERSION/ or NAME/, as `helm pull` leaves them.
type Source struct {
	Folder     string // folder of charts; asked first; empty: none
	AnyVersion bool   // use a chart from Folder whatever its version: to try with the charts at hand
	Offline    bool   // ask nothing but Folder and Cache
	Cache      string // where downloads are kept, if it can be written; empty: homelab/charts in the user's cache folder

	Dial func(ctx context.Context, network, addr string) (net.Conn, error) // nil: directly, or through the environment's proxy
	Wrap func(http.RoundTripper) http.RoundTripper                         // around every request; may be nil

	memory *sync.Map // downloads that could not be kept; nil: they are not remembered
}

// NotFoundError is a chart that no place has.
type NotFoundError struct {
	Chart, Version string
	Places         []string // where it was searched, with the results
	Err            error    // the last failure; nil if the places simply do not have the chart
}

// Error names the chart, the places, and what to do.
func (e *NotFoundError) Error() string {
	asked := "no place to look for it: the release names no repository, and no folder of charts is given"
	if len(e.Places) > 0 {
		asked = strings.Join(e.Places, "; ")
	}
	return fmt.Sprintf("chart %s %s: %s: fix the repository or the connection to it, or put %s into the folder of charts",
		e.Chart, e.Version, asked, archive(e.Chart, e.Version))
}

// Unwrap returns the last failure.
func (e *NotFoundError) Unwrap() error { return e.Err }

// load reads the chart that a release names.
func (s Source) load(ctx context.Context, r chart.Release) (*helmchart.Chart, error) {
	if r.Chart == "" || r.Version == "" {
		return nil, fmt.Errorf("release %s/%s: the chart and its exact version must be named", r.Namespace, r.Name)
	}
	missing := &NotFoundError{Chart: r.Chart, Version: r.Version}
	if s.Folder != "" {
		if ch, err := s.fromFolder(r); ch != nil || err != nil {
			return ch, err
		}
		missing.Places = append(missing.Places, "folder "+s.Folder+" has "+s.offer(r.Chart))
	}
	if r.Repo == "" {
		return nil, missing
	}
	cached, digest := s.cachePath(r), r.Digest
	if cached.isStored() {
		// One that cannot be read, after a full disk for example, or that has the wrong
		// contents, is fetched again.
		ch, err := s.readStored(cached.path(), r, digest)
		if err == nil || s.Offline {
			return ch, err
		}
	}
	if s.Offline {
		missing.Places = append(missing.Places, "it is not among earlier downloads, and we are offline")
		return nil, missing
	}
	key := cached.name + " " + digest // of another it would be another
	data, err := s.fetchOnce(key, func() ([]byte, error) { return s.fetch(ctx, r, digest) })
	if err != nil {
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
	if err := cached.store(data); err != nil { // a read-only run need not be able to write
		converge.Progressf(ctx, "chart %s %s is used, but not kept for the next time: %v", r.Chart, r.Version, err)
		return s.readData(data, r)
	}
	s.dropCached(key)
	return s.read(cached.path(), r)
}

// WithMemoryCache returns a Source that keeps in memory what it could not write to disk, so that
// it downloads each chart once.
func (s Source) WithMemoryCache() Source {
	s.memory = &sync.Map{}
	return s
}

// fetchOnce returns a chart from memory, or fetches it.
func (s Source) fetchOnce(key string, fetch func() ([]byte, error)) ([]byte, error) {
	if s.memory == nil {
		return fetch()
	}
	if data, ok := s.memory.Load(key); ok {
		return data.([]byte), nil //nolint:forcetypeassert // nothing else is stored there
	}
	data, err := fetch()
	if err == nil {
		s.memory.Store(key, data)
	}
	return data, err
}

// dropCached applies to what is on disk.
func (s Source) dropCached(key string) {
	if s.memory != nil {
		s.memory.Delete(key)
	}
}

// readStored reads an earlier download.
func (s Source) readStored(path string, r chart.Release, digest string) (*helmchart.Chart, error) {
	if digest != "" {
		data, err := os.ReadFile(path)
		if err != nil {
			return nil, fmt.Errorf("chart %s: %w", path, err)
		}
		if have := digestOf(data); have != digest {
			return nil, fmt.Errorf("chart %s has the digest %s, and %s was expected: delete the file, and it is fetched again", path, have, digest)
		}
	}
	return s.read(path, r)
}

func archive(name, version string) string { return name + "-" + version + ".tgz" }

// read loads a download and checks that it is the chart that was asked for.
func (s Source) read(path string, r chart.Release) (*helmchart.Chart, error) {
	ch, err := loader.LoadFile(path)
	if err != nil {
		return nil, fmt.Errorf("chart %s: %w", path, err)
	}
	return s.checkChart(ch, path, r)
}

// readData is read for a download that could not be kept.
func (s Source) readData(data []byte, r chart.Release) (*helmchart.Chart, error) {
	from := withoutCredentials(r.Repo)
	ch, err := loader.LoadArchive(bytes.NewReader(data))
	if err != nil {
		return nil, fmt.Errorf("chart %s %s from %s: %w", r.Chart, r.Version, from, err)
	}
	return s.checkChart(ch, "from "+from, r)
}

// checkChart checks that a chart is the wanted one, and can be installed.
func (s Source) checkChart(ch *helmchart.Chart, path string, r chart.Release) (*helmchart.Chart, error) {
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
func complete(ch *helmchart.Chart, path string) error {
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
		return fmt.Errorf("chart %s lacks charts that it depends on: %s: run helm dependency build %s", path, strings.Join(missing, ", "), printable.Word(path))
	}
	return nil
}
