package session

import (
	"bytes"
	"context"
	"fmt"
	"net/http"
	"net/http/httptest"
	"net/url"
	"os"
	"path"
	"path/filepath"
	"strings"
	"sync"
	"testing"
	"testing/synctest"

	"github.com/opencontainers/go-digest"
	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"
	"helm.sh/helm/v3/pkg/chart/loader"
	"helm.sh/helm/v3/pkg/chartutil"
	"oras.land/oras-go/v2/registry/remote"

	"github.com/cps-gpu/homelab/cluster"
	"github.com/cps-gpu/homelab/internal/console"
	"github.com/cps-gpu/homelab/internal/mirror/registrytest"
	"github.com/cps-gpu/homelab/internal/pages"
	"github.com/cps-gpu/homelab/internal/platform"
	"github.com/cps-gpu/homelab/internal/share"
	"github.com/cps-gpu/homelab/kube/helm"
	"github.com/cps-gpu/homelab/nvidia"
	"github.com/cps-gpu/homelab/secret"
	"github.com/cps-gpu/homelab/sim/guest"
	"github.com/cps-gpu/homelab/sim/pvesim"
)

const mirrorHost = "registry.home.arpa:5000"

// internet has registries, repositories of charts K3s' releases and, beside them, the mirror.
type internet struct {
	upstream, mirror *registrytest.Registry
	charts           map[string][]byte // archives by the names of their files
	index            string
	toolkit          map[string]string // digests of NVIDIA's packages, which are not the real ones

	mu    sync.Mutex
	gone  bool
	asked []string // URLs outside, when there was no internet
}

// newInternet has the charts of the lab as their repositories have them, and no images yet.
func newInternet(t *testing.T) *internet {
	t.Helper()
	w := &internet{upstream: registrytest.New(t), mirror: registrytest.New(t), charts: map[string][]byte{}, index: "entries:\n", toolkit: map[string]string{}}
	for name := range (nvidia.Toolkit{}).Files() {
		data, err := guest.DefaultInternet()(nvidia.ToolkitURL(name))
		require.NoError(t, err)
		w.toolkit[name] = digest.FromBytes(data).Encoded()
	}
	for _, pin := range platform.Pins() {
		folder := filepath.Join("../../sim/lab/charts", pin.Chart)
		if _, err := os.Stat(folder); err != nil {
			continue // the lab makes it when it needs it
		}
		ch, err := loader.Load(folder)
		require.NoError(t, err)
		ch.Metadata.Version = pin.Version
		file, err := chartutil.Save(ch, t.TempDir())
		require.NoError(t, err)
		data, err := os.ReadFile(file)
		require.NoError(t, err)
		name := path.Base(file)
		w.charts[name] = data
		w.index += fmt.Sprintf("  %s: [{version: %q, urls: [%q], digest: %q}]\n", pin.Chart, pin.Version, name, digest.FromBytes(data).Encoded())
		if host, ok := strings.CutPrefix(pin.Repo, "oci://"); ok {
			_, repo, _ := strings.Cut(host, "/")
			to, err := remote.NewRepository(w.upstream.Host() + "/" + repo + "/" + pin.Chart)
			require.NoError(t, err)
			to.PlainHTTP = true
			_, err = helm.Push(t.Context(), to, data, false)
			require.NoError(t, err)
		}
	}
	return w
}

// digests are those of the charts, which are not the real ones, as the file has them.
func (w *internet) digests() string {
	out := "  digests:\n"
	for part, pin := range platform.Pins() {
		if data, ok := w.charts[pin.Chart+"-"+pin.Version+".tgz"]; ok {
			out += fmt.Sprintf("    %s: %q\n", part, digest.FromBytes(data))
		}
	}
	return out
}

// RoundTrip implements [http.RoundTripper].
func (w *internet) RoundTrip(r *http.Request) (*http.Response, error) {
	answer := httptest.NewRecorder()
	w.mu.Lock()
	defer w.mu.Unlock()
	switch {
	case r.URL.Host == mirrorHost:
		w.mirror.ServeHTTP(answer, withBody(r))
	case w.gone:
		w.asked = append(w.asked, r.URL.String())
		return nil, &url.Error{Op: r.Method, URL: r.URL.String(), Err: guest.ErrNotFound}
	case strings.HasPrefix(r.URL.Path, "/v2/"):
		w.upstream.ServeHTTP(answer, withBody(r))
	case strings.HasSuffix(r.URL.Path, "/index.yaml"):
		_, _ = answer.WriteString(w.index)
	case w.charts[path.Base(r.URL.Path)] != nil:
		_, _ = answer.Write(w.charts[path.Base(r.URL.Path)])
	default:
		data, err := guest.DefaultInternet()(r.URL.String())
		if err != nil {
			answer.WriteHeader(http.StatusNotFound)
		}
		_, _ = answer.Write(data)
	}
	result := answer.Result()
	result.Request = r
	return result, nil
}

// withBody has an empty body instead of none, as servers have.
func withBody(r *http.Request) *http.Request {
	if r.Body == nil {
		r = r.Clone(r.Context())
		r.Body = http.NoBody
	}
	return r
}

// session is one for a file, with this internet.
func (w *internet) session(t *testing.T, file string) (s *Session, said *bytes.Buffer) {
	t.Helper()
	said = &bytes.Buffer{}
	s, err := Load(Options{Spec: file, Console: &console.Console{Talk: said, Data: said, Redact: &secret.Redactor{}}})
	require.NoError(t, err)
	s.internet, s.toolkitDigests = w, w.toolkit
	return s, said
}

// someParts is a cluster with the parts that come up on simulated machines in a few seconds.
const someParts = `name: all
proxmox: {endpoint: lab}
network: {prefix: 10.0.0.0/24, gateway: 10.0.0.1}
nodes:
  cp1: {role: server, address: 10.0.0.11}
  wk1: {address: 10.0.0.21, disks: {scratch: {size: 100GiB, mount: /scratch}}}
pools: {gpu: {count: 1, addresses: [10.0.0.31], memory: 64GiB, gpus: 1}}
nvidia: {verify: {images: {pytorch: "docker.io/pytorch/pytorch:2.8.0"}}}
k3s: {vip: 10.0.0.100}
loadBalancer: {kind: metallb, addresses: [10.0.0.200-10.0.0.220]}
tls: self-signed
argocd: {}
guest: {apt: {mirror: "http://apt.home.arpa/ubuntu"}}
storage:
  default: nfs
  nfs: {server: 10.0.0.5, export: /export/k3s}
`

// everyPart has beside them whatever else can be in one file and brings a chart or images.
const everyPart = someParts + `  scratch: {}
  longhorn: {}
  proxmox: {storage: vmdata, token: homelab@pve!csi, secret: env:PROXMOX_SECRET}
rancher: {hostname: rancher.lab.example}
monitoring: {hostname: grafana.lab.example}
logs: {}
login: {hostname: login.lab.example, allowedGroups: [lab], adminGroups: [staff], oidc: {issuer: "https://id.example.org", clientID: dex, clientSecret: env:PROXMOX_SECRET}}
models: {qwen: {source: Qwen/Qwen3-8B, context: 16384, mirror: "https://hf.lab.example"}}
modelGateway: true
modelChat: {hostname: chat.lab.example, class: nfs, size: 20GiB}
queues: {students: {gpus: 1, namespaces: [jupyterhub]}}
hub: {hostname: hub.lab.example, auth: dummy}
tunnel: {cloudflare: env:PROXMOX_SECRET, names: [hub.lab.example]}
backup: {endpoint: "https://s3.lab.example", region: lab, bucket: backups, accessKey: env:PROXMOX_SECRET, secretKey: env:PROXMOX_SECRET}
dns: {zones: [lab.example], records: true, rfc2136: {server: 10.0.0.2, key: homelab, secret: env:PROXMOX_SECRET}}
postgres: {databases: {people: {class: longhorn}}, backup: true}
`

// TestMirrorOfEveryPart: one command fills the mirror of a file with every part, a second one copies nothing, and then
// no chart, no file of K3s and no package of NVIDIA's comes from another host.
func TestMirrorOfEveryPart(t *testing.T) {
	for _, name := range []string{"XDG_CACHE_HOME", "DOCKER_CONFIG"} {
		t.Setenv(name, t.TempDir())
	}
	t.Setenv("PROXMOX_SECRET", "pa55-0f-everything")
	w, dir := newInternet(t), t.TempDir()
	with := func(parts string) string {
		file := filepath.Join(dir, "cluster.yaml")
		text := parts + "mirror: {registry: https://" + mirrorHost + "/v2/lab, folder: mirror}\ncharts:\n" + w.digests()
		require.NoError(t, os.WriteFile(file, []byte(text), 0o600))
		return file
	}
	said := w.fill(t, with(someParts))
	pages.Compare(t, "docs/images.md", "mirrored", strings.ReplaceAll(said, dir+"/mirror", "mirror-files"), *update)

	file := with(everyPart)
	said = w.fill(t, file)
	assert.Regexp(t, `(?m)^\d+ charts copied to `+dir+`/mirror/charts\.\nNothing to copy: `+dir+`/mirror/k3s has all 2 files\.\nNothing to copy: `+dir+`/mirror/nvidia has all 4 packages\.\n`, said)
	assert.NotRegexp(t, " copied to |[0-9]+ of [0-9]+: |pa55", w.fill(t, file))
	s, _ := w.session(t, file)
	list, err := imagesOf(t.Context(), s)
	require.NoError(t, err)
	assert.Greater(t, len(list.Images), 45)
	registries := s.Spec.K3s.Registries
	require.Len(t, registries, 1, "of all images, whatever their registry")
	assert.Equal(t, "*", registries[0].Name)
	assert.Equal(t, []string{"https://" + mirrorHost + "/v2/lab"}, registries[0].Endpoints)

	t.Setenv("XDG_CACHE_HOME", t.TempDir()) // without the downloads of before
	w.mu.Lock()
	w.gone = true
	w.mu.Unlock()
	s, _ = w.session(t, file)
	again, err := imagesOf(t.Context(), s)
	require.NoError(t, err)
	assert.Equal(t, list, again, "from the charts of the mirror alone")
	if share.OneOf(t, 3, "lives from a mirror").Next() {
		w.up(t, with(someParts))
	}
	assert.Empty(t, w.asked)
}

// fill runs images:mirror for a file, whose images are in their registries, and expects that the mirror then has them. The
// contents of an image with a given digest are nowhere here, so that the command reports those, and those alone.
func (w *internet) fill(t *testing.T, file string) string {
	t.Helper()
	s, said := w.session(t, file)
	list, err := imagesOf(t.Context(), s)
	require.NoError(t, err)
	var pinned, copied []string
	for _, i := range list.Images {
		repo, tag, digest := parts(i.Name)
		if digest != "" {
			pinned = append(pinned, i.Name)
			continue
		}
		copied = append(copied, "lab/"+repo+":"+tag)
		w.upstream.Image(repo, tag, "amd64", "arm64")
	}
	err = imageMirror{s}.copy(t.Context(), ImagesMirrorFlags{})
	if len(pinned) == 0 {
		require.NoError(t, err)
	} else {
		for _, line := range strings.Split(fmt.Sprint(err), "\n") {
			name, _, _ := strings.Cut(line, ": ")
			assert.Contains(t, pinned, name, line)
		}
	}
	for _, name := range copied {
		assert.NotEmpty(t, w.mirror.Tags[name], name)
	}
	return said.String()
}

// TestMirrorByFolder: a folder that one machine has filled is all that another one needs, with the chart that a GitOps
// tool deploys from the registry.
func TestMirrorByFolder(t *testing.T) {
	for _, name := range []string{"XDG_CACHE_HOME", "DOCKER_CONFIG"} {
		t.Setenv(name, t.TempDir())
	}
	t.Setenv("PROXMOX_SECRET", "pa55-0f-git")
	w, dir := newInternet(t), t.TempDir()
	file, carried := filepath.Join(dir, "cluster.yaml"), filepath.Join(dir, "carried")
	require.NoError(t, os.WriteFile(file, []byte(strings.Replace(someParts, "argocd: {}\n", "", 1)+`
monitoring: {hostname: grafana.lab.example}
fleet: {standalone: true, repo: "https://git.lab.example/x.git", username: u, password: env:PROXMOX_SECRET}
mirror: {registry: "https://`+mirrorHost+`", folder: carried, images: [rancher/fleet:v0.16.2]}
charts:
  via: {monitoring: fleet}
`+w.digests()), 0o600))
	s, _ := w.session(t, file)
	list, err := imagesOf(t.Context(), s)
	require.NoError(t, err)
	for _, i := range list.Images {
		repo, tag, _ := parts(i.Name)
		w.upstream.Image(repo, tag, "amd64", "arm64")
	}
	require.NoError(t, imageMirror{s}.copy(t.Context(), ImagesMirrorFlags{Out: carried, Arch: "amd64,arm64"}))
	for _, name := range []string{"index.json", "k3s/k3s", "k3s/k3s-arm64", "k3s/sha256sum-arm64.txt", "nvidia/nvidia-container-toolkit_1.20.1-1_amd64.deb", "charts/metallb-0.16.2.tgz"} {
		assert.FileExists(t, filepath.Join(carried, name))
	}
	assert.Empty(t, w.mirror.Tags)

	t.Setenv("XDG_CACHE_HOME", t.TempDir())
	w.gone = true
	s, said := w.session(t, file)
	require.NoError(t, imageMirror{s}.copy(t.Context(), ImagesMirrorFlags{From: carried}))
	assert.Contains(t, said.String(), "1 chart copied to oci://"+mirrorHost+"/charts.\n")
	assert.Len(t, w.mirror.Tags, len(list.Images)+1)
	assert.NotEmpty(t, w.mirror.Tags["rancher/fleet:v0.16.2"])
	assert.NotEmpty(t, w.mirror.Tags["charts/kube-prometheus-stack:92.1.0"])
	assert.Empty(t, w.asked)
	moved := filepath.Join(dir, "moved")
	require.NoError(t, os.Rename(carried, moved))
	s, said = w.session(t, file)
	require.NoError(t, imageMirror{s}.copy(t.Context(), ImagesMirrorFlags{From: moved}))
	assert.Contains(t, said.String(), "K3s, charts and NVIDIA's packages stay in "+moved+": write mirror: {folder: "+moved+"}\n")
}

// parts are those of the name of an image: repository, tag and digest.
func parts(name string) (repo, tag, digest string) {
	name, digest, _ = strings.Cut(name, "@")
	_, image, _ := strings.Cut(name, "/")
	repo, tag, _ = strings.Cut(image, ":")
	return repo, tag, digest
}

// up brings a cluster up from the mirror, on machines that reach only packages of their distribution.
func (w *internet) up(t *testing.T, file string) {
	t.Helper()
	synctest.Test(t, func(t *testing.T) {
		site := newSite(t)
		site.sim.Close()
		site.sim = pvesim.New(pvesim.EightA100(), pvesim.Options{Kubernetes: site.kube, Internet: w.archive})
		site.toolkit = w.toolkit
		defer site.close()
		spec, err := cluster.Load(file)
		require.NoError(t, err)
		err = site.command(spec, Options{}, func(s *Session, ctx context.Context) error { return Up(s, ctx, UpFlags{}) })
		require.NoError(t, err, site.talk.String())
		assert.Contains(t, site.talk.String(), "chart/argocd")
	})
}

// archive is what machines reach: the mirror of packages, and the host's image of the operating system.
func (w *internet) archive(url string) ([]byte, error) {
	if archive, ours := strings.CutPrefix(url, "http://apt.home.arpa/"); ours || strings.HasPrefix(url, "https://cloud-images.ubuntu.com/") {
		return guest.DefaultInternet()(strings.Replace(url, "http://apt.home.arpa/"+archive, "http://archive.ubuntu.com/"+archive, 1))
	}
	w.mu.Lock()
	defer w.mu.Unlock()
	w.asked = append(w.asked, url)
	return nil, guest.ErrNotFound
}
