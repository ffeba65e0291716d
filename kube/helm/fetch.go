package helm

import (
	"cmp"
	"context"
	"crypto/sha256"
	"crypto/tls"
	"encoding/hex"
	"errors"
	"fmt"
	"io"
	"net"
	"net/http"
	"net/url"
	"os"
	"path/filepath"
	"strings"
	"time"

	"oras.land/oras-go/v2/registry"
	"sigs.k8s.io/yaml"

	"github.com/cps-gpu/homelab/converge"
	"github.com/cps-gpu/homelab/kube/chart"
)

// The most that is read, in bytes. The largest index in the field (bitnami's) has some 20 MiB;
// Helm itself takes no archive above 100 MiB.
const (
	maxIndex   = 128 << 20
	maxArchive = 100 << 20
)

// tries is how often a repository that does not answer is asked.
const tries = 3

// noVersionError says that a repository answers and does not have the chart.
type noVersionError struct{ text string }

func (e *noVersionError) Error() string { return e.text }

// download is where one is kept.
type download struct {
	dir  string // of all; empty: nowhere
	name string // path within it
	none error  // why nowhere
}

func (d download) path() string { return filepath.Join(d.dir, d.name) }

// isStored reports whether an earlier one is.
func (d download) isStored() bool {
	if d.dir == "" {
		return false
	}
	_, err := os.Stat(d.path())
	return err == nil
}

// store keeps one, where that is possible.
func (d download) store(data []byte) error {
	if d.dir == "" {
		return d.none
	}
	return writeAtomically(d.path(), data)
}

// cachePath returns the place of a release's chart among the downloads. Each repository has its
// own folder: two may have different charts with the same name and version.
func (s Source) cachePath(r chart.Release) download {
	sum := sha256.Sum256([]byte(strings.TrimSuffix(r.Repo, "/")))
	name := filepath.Base(archive(r.Chart, r.Version)) // Base: neither can point out of the folder
	d := download{dir: s.Cache, name: filepath.Join(hex.EncodeToString(sum[:8]), name)}
	if d.dir == "" {
		base, err := os.UserCacheDir()
		if err != nil {
			d.none = fmt.Errorf("there is no folder for downloaded charts: %w", err)
			return d
		}
		d.dir = filepath.Join(base, "homelab", "charts")
	}
	return d
}

// fetch downloads a release's chart. If its digest is known, the download must have it.
func (s Source) fetch(ctx context.Context, r chart.Release, digest string) ([]byte, error) {
	converge.Progressf(ctx, "fetching chart %s %s from %s", r.Chart, r.Version, withoutCredentials(r.Repo))
	u, err := url.Parse(r.Repo)
	if err != nil {
		return nil, fmt.Errorf("repository %q is not a URL", withoutCredentials(r.Repo))
	}
	client := s.client()
	defer client.CloseIdleConnections()
	var data []byte
	switch u.Scheme {
	case "oci":
		data, err = pull(ctx, client, strings.TrimSuffix(u.Host+u.Path, "/")+"/"+r.Chart, r.Version)
	case "https", "http":
		data, err = fromIndex(ctx, client, u, r, digest != "")
	default:
		return nil, fmt.Errorf("repository %s: its scheme must be https or oci", withoutCredentials(r.Repo))
	}
	if err != nil {
		return nil, err
	}
	if have := digestOf(data); digest == "" {
		converge.Progressf(ctx, "chart %s %s has the digest %s, which is that of its repository; write it to charts.digests to pin it",
			r.Chart, r.Version, have)
	} else if have != digest {
		return nil, fmt.Errorf("chart %s %s from %s has the digest %s, and %s was expected: it was changed on the way or in its repository; "+
			"do not install it before you know why", r.Chart, r.Version, withoutCredentials(r.Repo), have, digest)
	}
	return data, nil
}

// digestOf writes a digest as registries do.
func digestOf(data []byte) string {
	sum := sha256.Sum256(data)
	return "sha256:" + hex.EncodeToString(sum[:])
}

// writeAtomically writes a file atomically: readers see all of it or nothing.
func writeAtomically(path string, data []byte) error {
	if err := os.MkdirAll(filepath.Dir(path), 0o700); err != nil {
		return fmt.Errorf("folder for downloaded charts: %w", err)
	}
	tmp, err := os.CreateTemp(filepath.Dir(path), ".part-*")
	if err != nil {
		return fmt.Errorf("keep a downloaded chart: %w", err)
	}
	_, err = tmp.Write(data)
	err = errors.Join(err, tmp.Close())
	if err == nil {
		err = os.Rename(tmp.Name(), path)
	}
	if err != nil {
		return fmt.Errorf("keep a downloaded chart: %w", errors.Join(err, os.Remove(tmp.Name())))
	}
	return nil
}

// client makes the client for one download.
func (s Source) client() *http.Client {
	const reach = 10 * time.Second // for a connection, and again for TLS
	t := &http.Transport{
		Proxy:                 http.ProxyFromEnvironment,
		DialContext:           (&net.Dialer{Timeout: reach}).DialContext,
		TLSHandshakeTimeout:   reach,
		ResponseHeaderTimeout: 30 * time.Second,
		ForceAttemptHTTP2:     true,
	}
	if s.Dial != nil {
		t.DialContext, t.Proxy = s.Dial, nil
	}
	var rt http.RoundTripper = t
	if s.Wrap != nil {
		rt = s.Wrap(t)
	}
	return &http.Client{Transport: rt, CheckRedirect: checkRedirect}
}

// index is the part of a repository's index.yaml that this package uses.
type index struct {
	Entries map[string][]entry `json:"entries"`
}

type entry struct {
	Version string   `json:"version"`
	URLs    []string `json:"urls"`
	Digest  string   `json:"digest"`
}

// parseIndex reads an index.yaml.
func parseIndex(data []byte) (index, error) {
	var ix index
	if err := yaml.Unmarshal(data, &ix); err != nil {
		return ix, fmt.Errorf("index.yaml: %w", err)
	}
	if len(ix.Entries) == 0 {
		return ix, errors.New("index.yaml lists no chart: is this the URL of a chart repository?")
	}
	return ix, nil
}

// find returns the entry of a chart at a version.
func (ix index) find(name, version string) (entry, error) {
	entries, ok := ix.Entries[name]
	if !ok {
		return entry{}, &noVersionError{"it has no chart " + name}
	}
	have := make([]string, 0, len(entries))
	for _, e := range entries {
		if strings.TrimPrefix(e.Version, "v") == strings.TrimPrefix(version, "v") {
			if len(e.URLs) == 0 {
				return entry{}, fmt.Errorf("its index names no URL for %s %s", name, version)
			}
			return e, nil
		}
		have = append(have, e.Version)
	}
	const few = 5
	if len(have) > few {
		have = append(have[:few:few], "…")
	}
	return entry{}, &noVersionError{fmt.Sprintf("it has no version %s of %s, but %s", version, name, strings.Join(have, ", "))}
}

// fromIndex downloads from a classic repository. If the archive is not pinned, its digest must be in
// the index: otherwise nothing shows that it is the one that was published.
func fromIndex(ctx context.Context, client *http.Client, repo *url.URL, r chart.Release, pinned bool) ([]byte, error) {
	repo = repo.JoinPath("/") // so that relative URLs are below it
	data, err := get(ctx, client, repo.JoinPath("index.yaml"), maxIndex)
	if err != nil {
		return nil, err
	}
	ix, err := parseIndex(data)
	var e entry
	if err == nil {
		e, err = ix.find(r.Chart, r.Version)
	}
	if err != nil {
		return nil, fmt.Errorf("repository %s: %w", withoutCredentials(r.Repo), err)
	}
	var errs []error
	for _, raw := range e.URLs {
		data, err := fromURL(ctx, client, repo, raw, r.Version, e.Digest != "")
		if err == nil {
			err = checkDigest(data, e.Digest)
		}
		if err == nil && e.Digest == "" && !pinned && !strings.HasPrefix(raw, "oci:") { // a registry has digests of its own
			return nil, fmt.Errorf("repository %s: its index has no digest of %s %s, so nothing shows that the archive is the one that was published\n"+
				"  compare it with its author's, and pin it under charts.digests: %s", withoutCredentials(r.Repo), r.Chart, r.Version, digestOf(data))
		}
		if err == nil {
			return data, nil
		}
		errs = append(errs, fmt.Errorf("%s, which the index of %s names: %w", withoutCredentials(raw), withoutCredentials(r.Repo), err))
	}
	return nil, errors.Join(errs...)
}

// fromURL downloads one of the URLs of an index. An index without TLS may lead to any URL; one
// with TLS only to a URL with TLS, or to an archive with a digest in the index.
func fromURL(ctx context.Context, client *http.Client, repo *url.URL, raw, version string, digest bool) ([]byte, error) {
	u, err := repo.Parse(raw)
	if err != nil {
		return nil, err
	}
	if repo.Scheme == "https" && u.Scheme == "http" && !digest {
		return nil, &downgradeError{withoutLogin(repo), withoutLogin(u)}
	}
	if u.Scheme == "oci" { // bitnami's index does so
		ref, err := registry.ParseReference(strings.TrimPrefix(raw, "oci://"))
		if err != nil {
			return nil, err
		}
		return pull(ctx, client, ref.Registry+"/"+ref.Repository, cmp.Or(ref.Reference, version))
	}
	if u.Scheme == repo.Scheme && u.Host == repo.Host && u.User == nil { // the login goes to no other host
		u.User = repo.User
	}
	return get(ctx, client, u, maxArchive)
}

// checkDigest compares data with the SHA-256 in the index, if there is one.
func checkDigest(data []byte, digest string) error {
	want := strings.TrimPrefix(digest, "sha256:")
	sum := sha256.Sum256(data)
	if have := hex.EncodeToString(sum[:]); want != "" && !strings.EqualFold(have, want) {
		return fmt.Errorf("the download has the digest %s, and the index says %s: it was changed on the way, or the repository is broken", have, want)
	}
	return nil
}

// get downloads a URL, and retries if the network or the server fails.
func get(ctx context.Context, client *http.Client, u *url.URL, most int64) ([]byte, error) {
	pause := 200 * time.Millisecond
	for try := 1; ; try++ {
		data, again, err := getOnce(ctx, client, u, most)
		switch {
		case err == nil:
			return data, nil
		case !again:
			return nil, err
		case try == tries || converge.Pause(ctx, pause) != nil:
			return nil, converge.Transient(err)
		}
		pause *= 5
	}
}

func getOnce(ctx context.Context, client *http.Client, u *url.URL, most int64) (data []byte, again bool, err error) {
	req, err := http.NewRequestWithContext(ctx, http.MethodGet, u.String(), nil)
	if err != nil {
		return nil, false, fmt.Errorf("%s: %w", withoutLogin(u), err)
	}
	resp, err := client.Do(req)
	if err != nil {
		var ue *url.Error // its text repeats the URL
		if errors.As(err, &ue) {
			err = ue.Err
		}
		var down *downgradeError
		if errors.As(err, &down) {
			return nil, false, err
		}
		return nil, mayAnswerSoon(err), fmt.Errorf("%s cannot be reached: %w", withoutLogin(u), err)
	}
	defer func() { _ = resp.Body.Close() }()
	if resp.StatusCode != http.StatusOK {
		return nil, resp.StatusCode >= http.StatusInternalServerError, fmt.Errorf("%s answers %s", withoutLogin(u), resp.Status)
	}
	data, err = io.ReadAll(io.LimitReader(resp.Body, most+1))
	switch {
	case err != nil:
		return nil, true, fmt.Errorf("%s broke off: %w", withoutLogin(u), err)
	case int64(len(data)) > most:
		return nil, false, fmt.Errorf("%s has more than %d MiB", withoutLogin(u), most>>20)
	}
	return data, false, nil
}

// mayAnswerSoon reports whether a server that was not reached may answer soon: not if its name does not
// exist, or its certificate is not trusted.
func mayAnswerSoon(err error) bool {
	var name *net.DNSError
	var cert *tls.CertificateVerificationError
	return !errors.As(err, &cert) && (!errors.As(err, &name) || !name.IsNotFound)
}
