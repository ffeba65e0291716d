package e2e

import (
	"regexp"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"
	"golang.org/x/crypto/bcrypt"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime/schema"
	"k8s.io/client-go/discovery"
	"k8s.io/client-go/dynamic"

	"github.com/cps-gpu/homelab/fleet"
	"github.com/cps-gpu/homelab/internal/labctl"
	"github.com/cps-gpu/homelab/internal/pages"
	"github.com/cps-gpu/homelab/internal/share"
	"github.com/cps-gpu/homelab/sim/lab/internal/labtest"
)

// partsFile is the cluster on which parts come and go.
const partsFile = `name: parts
proxmox: {endpoint: lab}
network: {prefix: 10.0.0.0/24, gateway: 10.0.0.1}
k3s: {cni: flannel}
pools:
  cp: {role: server, count: 1, addresses: [10.0.0.11], memory: 16GiB}
  gpu: {count: 1, addresses: [10.0.0.21], gpus: 2, cores: 16, memory: 128GiB, disks: {scratch: {size: 100GiB, mount: /scratch}}}
`

// partRow is a section of the file that comes, repeats, changes by a value and goes.
type partRow struct {
	text     string // of the file
	old, new string // the value that changes
	step     string // that the run then changes
	last     string // what is in the file for a run before it goes; empty: nothing
}

// partRows are parts that can be in one file. What needs a Git server, root on a host or a zone has a test of its own.
func partRows() []partRow {
	return []partRow{
		{text: "nvidia: {guard: true}\n"}, // it has nothing to change
		{text: "storage:\n  default: local-path\n  nfs: {server: 10.0.0.30, export: /export/k3s, classes: {bulk: \"10.0.0.31:/bulk\", old: /old}, shares: {films: {export: \"10.0.0.31:/films\", namespaces: [research]}}}\n  scratch: {}\n",
			old: `bulk: "10.0.0.31:/bulk", old: /old}, shares: {films: {export: "10.0.0.31:/films", namespaces: [research]`,
			new: `bulk: "10.0.0.32:/bulk"}, shares: {films: {export: "10.0.0.31:/films", namespaces: [research, course]`, step: "objects/nfs"},
		{text: "  proxmox: {storage: vmdata, token: csi@pve!parts, secret: file:csi}\n", old: "file:csi}", new: "file:csi-renewed}", step: "secrets/proxmox-csi"},
		{text: "loadBalancer: {addresses: [10.0.0.200-10.0.0.219]}\n", old: "200-10.0.0.219", new: "200-10.0.0.229", step: "objects/metallb"},
		{text: "tls: self-signed\ningress: gateway\n", old: "ingress: gateway", new: "ingress: traefik", step: "objects/ingress"},
		{text: "tunnel: {cloudflare: file:topic, names: [hub.lab.example]}\n", old: "[hub.lab.example]", new: "[hub.lab.example, chat.lab.example]", step: "objects/tunnel"},
		{text: "logs: {size: 10GiB, retention: 10d}\n", old: "10d", new: "20d", step: "chart/logs"},
		{text: "monitoring: {size: 10GiB, hostname: grafana.lab.example, alerts: {ntfy: file:topic}}\n", old: "alerts: {ntfy: file:topic}", new: "alerts: {webhook: file:topic}", step: "secrets/monitoring"},
		{text: "postgres: {databases: {tracking: {namespace: login, size: 10GiB}, hub-db: {namespace: jupyterhub}}, backup: true}\n", old: "{tracking: ", new: "{more: {namespace: login}, tracking: ", step: "objects/postgres", last: "postgres: true\n"},
		{text: "backup: {endpoint: \"https://s3.lab.example\", bucket: backups, accessKey: file:topic, secretKey: file:topic, retention: 2w}\n", old: "2w", new: "3w", step: "chart/velero"},
		{text: "queues: {class: {gpus: 2, namespaces: [course, models]}}\n", old: "[course", new: "[research, course", step: "objects/kueue"},
		{text: "login: {hostname: login.lab.example, allowedGroups: [students], adminGroups: [staff], people: {ada: {email: ada@lab.example, hash: file:hash, groups: [staff]}}}\n",
			old: "groups: [staff]}", new: "groups: [staff, students]}", step: "secrets/dex"},
		{text: "hub: {hostname: hub.lab.example, database: {name: hub-db}, ssh: true, prePull: true, shared: {films: {path: /films, perGroup: true, groups: [students]}}}\n", old: "ssh: true, prePull: true", new: "ssh: false, prePull: false", step: "chart/jupyterhub"},
		{text: "models:\n  qwen: {source: Qwen/Qwen3-4B, context: 16384}\n", old: "16384", new: "8192", step: "objects/models"},
		{text: "  mini: {source: unsloth/Qwen3-4B-GGUF, file: Qwen3-4B-Q4_K_M.gguf, sha256: f6f851777709861056efcdad3af01da38b31223a3ba26e61a4f8bf3a2195813a, engine: llama.cpp, context: 4096}\n",
			old: "4096", new: "2048, awake: \"05:00-04:59\"", step: "objects/models"},
		{text: "modelGateway: {hostname: models.lab.example, keys: {alice: {}, robotics: {models: [qwen], requestsPerMinute: 60}}}\n",
			old: "requestsPerMinute: 60", new: "requestsPerMinute: 70", step: "keys/model-gateway"},
		{text: "modelChat: {hostname: chat.lab.example}\n", old: "chat.lab", new: "talk.lab", step: "objects/model-chat"},
	}
}

// onlyDirect takes out what only the direct way is tried with.
func (l *partsLife) onlyDirect() {
	without := strings.NewReplacer(" database: {name: hub-db},", "", ", hub-db: {namespace: jupyterhub}", "", "[course, models]", "[course]", `, awake: "05:00-04:59"`, "")
	for i := range l.rows {
		row := &l.rows[i]
		row.text, row.new = without.Replace(row.text), without.Replace(row.new)
	}
}

// onCilium has Cilium as the network in place of K3s' own, with the parts that are then others.
func (l *partsLife) onCilium() {
	l.given = strings.Replace(l.given, "flannel", "cilium", 1)
	for i := range l.rows {
		row := &l.rows[i]
		switch row.step {
		case "objects/metallb":
			row.step = "objects/cilium-pool"
		case "objects/ingress":
			row.text, row.old = strings.Replace(row.text, row.old, "ingress: {kind: gateway, by: cilium}", 1), "ingress: {kind: gateway, by: cilium}"
		}
	}
}

// stays is what parts leave in the cluster by design, beside namespaces and definitions of kinds; docs/platform.md says so.
var stays = []*regexp.Regexp{
	regexp.MustCompile(`^persistentvolumeclaims (jupyterhub/hub-db-dir|logs/victoria-logs|monitoring/prometheus-.*)$`), // data
	regexp.MustCompile(`^persistentvolumes /pvc-`),                                                                     // theirs
	regexp.MustCompile(`^secrets .*-(tls|ca)$`),                                                                        // what cert-manager has issued
	regexp.MustCompile(`^secrets (jupyterhub/(hub-homelab|model-keys?)|monitoring/grafana-admin)$`),                    // generated, of parts with data
	regexp.MustCompile(`^secrets (metallb-system/metallb-memberlist|monitoring/.*-admission|dex/lab-dex-storage)$`),    // the programs' own
}

// ciliumRevisions are what Helm keeps of Cilium, which is changed and stays.
var ciliumRevisions = regexp.MustCompile(`^secrets kube-system/sh\.helm\.release\.v1\.cilium\.v\d+$`)

// TestLivesOfParts adds parts to a cluster, repeats that, changes each by one value and removes them. What the
// cluster has afterwards is what it had before, but for what stays by design. On the simulated control plane the network
// is Cilium, which then also serves the Gateway API.
func TestLivesOfParts(t *testing.T) {
	t.Parallel()
	onEither(t, 2, []labctl.Guests{labtest.Real(), {}}, func(t *testing.T, kind labctl.Guests) {
		t.Parallel()
		l := newPartsLife(t, kind, "")
		l.comeAndChange(t)
		undo := l.diskScript(t)
		l.disksStay(t)
		l.leave(t, l.given)
		l.leftNothing(t)
		l.disksLeft(t, undo)
	})
}

// TestLivesOfPartsByGit does so with tools that deploy from Git. What this leaves of parts with data is taken over
// by the direct way, and removed by it. A run has at most one tool on one control plane.
func TestLivesOfPartsByGit(t *testing.T) {
	t.Parallel()
	mine := share.Start(t, "tools")
	mine.Next() // the first of each campaign is in every share: here the direct way, which TestLivesOfParts goes
	for _, tool := range []string{"flux", "fleet", "argocd"} {
		for _, kind := range []labctl.Guests{{}, labtest.Real()} {
			if mine.Next() {
				t.Run(tool+"/"+plane(kind), func(t *testing.T) { byGit(t, kind, tool) })
			}
		}
	}
}

func byGit(t *testing.T, kind labctl.Guests, tool string) {
	t.Parallel()
	l := newPartsLife(t, kind, tool)
	l.refused(t)
	l.comeAndChange(t)
	undo := l.diskScript(t)
	l.disksStay(t)
	l.leave(t, l.given)
	l.letGo(t, tool)
	direct := strings.Replace(l.given, "default: "+tool, "default: direct", 1)
	l.write(t, "cluster.yaml", l.whole(direct))
	l.must(t, "cluster:up", "-yes")
	l.againNothing(t)
	l.leave(t, direct)
	l.leftNothing(t)
	l.disksLeft(t, undo)
	l.withoutTool(t)
}

// refused: a file that asks of the tool what it cannot do is refused, with the reason.
func (l *partsLife) refused(t *testing.T) {
	t.Helper()
	l.write(t, "cluster.yaml", l.given+"postgres: true\ncharts: {via: {postgres: "+l.tool+"}}\n")
	_, talk, code := l.run(t, "cluster:validate")
	assert.NotZero(t, code)
	assert.Contains(t, talk, "cannot deploy postgres: it would delete the data of a database that left the file without asking")
}

// partsLife is a cluster on which parts come and go.
type partsLife struct {
	*user
	git    gitHost
	tool   string // that deploys what it can; empty: none
	given  string // the file without the parts
	rows   []partRow
	cilium bool     // is the network
	with   string   // the parts
	before []string // objects of the cluster without the parts
	access string   // of Proxmox: users, tokens and roles without those of the storage driver
}

func newPartsLife(t *testing.T, kind labctl.Guests, tool string) *partsLife {
	l := &partsLife{user: newUserOf(t, kind), tool: tool, given: partsFile, rows: partRows(), cilium: tool == "" && !kind.Kubernetes}
	hash, err := bcrypt.GenerateFromPassword([]byte("secret of ada"), 10)
	require.NoError(t, err)
	l.write(t, "hash", string(hash))
	l.write(t, "topic", "https://ntfy.lab.example/topic")
	if tool != "" {
		l.git = newGitHost(t)
		l.write(t, "git-token", gitToken)
		l.given += l.git.section(tool)
	}
	if tool != "" {
		l.onlyDirect()
	}
	if l.cilium {
		l.onCilium()
	}
	for _, row := range l.rows {
		l.with += row.text
	}
	l.write(t, "cluster.yaml", l.given)
	l.must(t, "cluster:up")
	l.before, l.access = l.inCluster(t), l.accessOfProxmox(t)
	return l
}

// comeAndChange adds the parts, and changes each.
func (l *partsLife) comeAndChange(t *testing.T) {
	t.Helper()
	l.write(t, "csi", "not yet")
	l.write(t, "cluster.yaml", l.whole(l.given))
	l.write(t, "csi", l.diskToken(t))
	plan, _, code := l.run(t, "cluster:plan")
	assert.Equal(t, 2, code, plan)
	_, talk := l.must(t, "cluster:up")
	l.comeOnPages(t, plan, talk)
	l.againNothing(t)
	l.diskFollows(t, "cp1")
	if l.tool == "" {
		l.verified(t)
		l.againNothing(t)
	}

	changed := l.with
	for _, row := range l.rows {
		require.Contains(t, row.text, row.old)
		changed = strings.Replace(changed, row.text, strings.Replace(row.text, row.old, row.new, 1), 1)
	}
	l.with = changed
	l.asRoot(t, "pveum", "user", "token", "delete", "csi@pve", "parts")
	l.write(t, "csi-renewed", l.diskToken(t))
	l.write(t, "cluster.yaml", l.whole(l.given))
	_, talk = l.must(t, "cluster:up", "-yes")
	for _, row := range l.rows {
		if row.step != "" {
			assert.Regexp(t, l.says(t, row.step), talk)
		}
	}
	l.changeOnPages(t, talk)
	l.againNothing(t)
	l.diskFollows(t, "gpu1")
	l.againNothing(t)
}

// verified tries the parts.
func (l *partsLife) verified(t *testing.T) {
	t.Helper()
	said, _ := l.must(t, "platform:verify")
	pages.Compare(t, "docs/platform.md", "certificates", said, *update)
	if !l.cilium {
		pages.Compare(t, "docs/platform.md", "parts", said, *update)
	}
	for _, check := range []string{"logs +a line of a pod is found", "monitoring +an alert is delivered", "dex +programs find it and its keys", "model-chat +its page opens by its name",
		"postgres +database tracking answers", "kueue +queue class lets a pod start", "nfs +share films is mounted in research"} {
		assert.Regexp(t, `(?m)^`+check+` +passed`, said)
	}
	assert.Regexp(t, `(?m)^(metallb|cilium-pool) +a Service gets an address +passed +10\.0\.0\.2\d\d$`, said)
	assert.Equal(t, "models models", l.asKubectl(t, "get", "workloads", "--all-namespaces", "-o", "jsonpath={.items[*].metadata.namespace}"), "models are in the queue, and their database is not")
	_, talk := l.must(t, "model:verify")
	assert.Contains(t, talk, "2 of 2 models answer.")
}

// says is what a run says of a step that changes something; of a part that goes through Git the push does.
func (l *partsLife) says(t *testing.T, step string) string {
	t.Helper()
	kind, part, _ := strings.Cut(step, "/")
	bundle := part + `(-before|-after)?/`
	if l.tool != "" && (kind == "chart" || kind == "objects") && regexp.MustCompile(`(?m)^`+l.tool+`/parts/`+bundle).MatchString(l.git.files(t)) {
		return `(?m)^\S+ +push/` + l.tool + ` +\w+: (.* )?` + bundle
	}
	return `(?m)^\S+ +` + step + ` +\w+: `
}

// leave removes the parts.
func (l *partsLife) leave(t *testing.T, given string) {
	t.Helper()
	for _, text := range []string{l.last(given), given} {
		l.write(t, "cluster.yaml", text)
		l.must(t, "cluster:up", "-yes")
		l.againNothing(t)
	}
}

// last is the file with what is in it for a run before the parts go.
func (l *partsLife) last(given string) string {
	for _, row := range l.rows {
		given += row.last
	}
	return given
}

func (l *partsLife) leftNothing(t *testing.T, more ...*regexp.Regexp) {
	t.Helper()
	stays := append(slices.Clone(stays), more...)
	if l.cilium {
		stays = append(stays, ciliumRevisions)
	}
	switch l.tool { // neither deletes what leaves a part with data (docs/gitops.md)
	case "argocd":
		stays = append(stays, regexp.MustCompile(`^httproutes\.gateway\.networking\.k8s\.io monitoring/monitoring-grafana$`))
	case "flux":
		stays = append(stays, regexp.MustCompile(`^configmaps jupyterhub/homelab-ssh$`))
	}
	var left []string
	assert.Eventually(t, func() bool { // a garbage collector takes its time
		left = slices.DeleteFunc(l.inCluster(t), func(o string) bool {
			return slices.Contains(l.before, o) || slices.ContainsFunc(stays, func(s *regexp.Regexp) bool { return s.MatchString(o) })
		})
		return len(left) == 0
	}, time.Minute, time.Second)
	assert.Empty(t, left, "left behind")
}

// withoutTool removes the tool itself. Nothing of it stays but what is said.
func (l *partsLife) withoutTool(t *testing.T) {
	t.Helper()
	l.write(t, "cluster.yaml", partsFile)
	plan, _, code := l.run(t, "cluster:plan")
	assert.Equal(t, 2, code)
	assert.Contains(t, plan, "what it deploys for others stays, and no longer follows Git")
	l.must(t, "cluster:up", "-yes")
	l.againNothing(t)
	its := regexp.MustCompile(` (cattle-fleet-system|homelab-flux|flux-system|argocd)/|gitops`)
	for _, o := range l.inCluster(t) {
		assert.False(t, its.MatchString(o) && !strings.Contains(o, "/fleet-agent"), "left behind: %s", o)
	}
}

// letGo makes the tool forget what it keeps of parts that left Git, as docs/gitops.md says.
func (u *user) letGo(t *testing.T, tool string) {
	t.Helper()
	ofParts := metav1.ListOptions{LabelSelector: fleet.PartLabel}
	switch tool {
	case "argocd":
		require.NoError(t, u.applications(t).DeleteCollection(t.Context(), metav1.DeleteOptions{}, ofParts))
	case "flux":
		kept, err := u.helmReleases(t).List(t.Context(), ofParts)
		require.NoError(t, err)
		require.NotEmpty(t, kept.Items)
		for _, release := range kept.Items {
			u.releaseKept(t, release.GetName())
		}
	}
}

// inCluster lists the objects of a cluster as "kind.group namespace/name", without those that Kubernetes makes for
// others, and without what stays with every part: namespaces and definitions of kinds.
func (u *user) inCluster(t *testing.T) (all []string) {
	t.Helper()
	config := u.server(t)
	config.QPS, config.Burst = 100, 100
	kinds, err := discovery.NewDiscoveryClientForConfigOrDie(config).ServerPreferredResources()
	require.NoError(t, err)
	client := dynamic.NewForConfigOrDie(config)
	for _, group := range kinds {
		gv, err := schema.ParseGroupVersion(group.GroupVersion)
		require.NoError(t, err)
		for _, r := range group.APIResources {
			if !slices.Contains(r.Verbs, "list") || slices.Contains(ofOthers, r.Kind) {
				continue
			}
			list, err := client.Resource(gv.WithResource(r.Name)).List(t.Context(), metav1.ListOptions{})
			require.NoError(t, err, "%s of %s", r.Name, gv)
			for _, o := range list.Items {
				if o.GetName() != "kube-root-ca.crt" && (r.Kind != "ServiceAccount" || o.GetName() != "default") {
					all = append(all, strings.TrimSuffix(r.Name+"."+gv.Group, ".")+" "+o.GetNamespace()+"/"+o.GetName())
				}
			}
		}
	}
	slices.Sort(all)
	return all
}

// ofOthers are kinds whose objects follow from others, and those that every part leaves.
var ofOthers = []string{"Event", "Lease", "Endpoints", "EndpointSlice", "ControllerRevision", "ReplicaSet", "Pod", "APIService", "Namespace", "CustomResourceDefinition"}
