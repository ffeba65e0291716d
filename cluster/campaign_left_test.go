package cluster_test

import (
	"bytes"
	"crypto/sha256"
	"encoding/json"
	"fmt"
	"io/fs"
	"regexp"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/cps-gpu/homelab/sim/guest"
)

// left is all that a life has left, a minute later: what is on the hosts, in the
// machines and in Kubernetes, so that two lives can be compared line by line.
func (w *world) left(t testing.TB) []string {
	t.Helper()
	time.Sleep(time.Minute)
	out := w.inventory()
	guests := w.guests()
	secrets := w.madeUp(guests)
	for name, g := range guests {
		out = append(out, files(name, g, secrets)...)
	}
	for _, c := range w.kube.Clusters() {
		pods := map[string]int{}
		c.Each(func(resource string, object map[string]any) {
			if line := lasts(t, resource, object, pods); line != "" {
				out = append(out, line)
			}
		})
		for pod, n := range pods {
			out = append(out, fmt.Sprintf("pods %s: %d", pod, n))
		}
	}
	slices.Sort(out)
	return out
}

// providerID is the ID of a VM's node, whose VMID is the next free one. [world.placesNodes] compares it with the VM.
var providerID = regexp.MustCompile(`(proxmox://[^/"]+/)[0-9]+`)

// notIn are the lines of a that are not in b. Both are sorted.
func notIn(a, b []string) (out []string) {
	for _, line := range a {
		if _, found := slices.BinarySearch(b, line); !found {
			out = append(out, line)
		}
	}
	return out
}

// madeUp are the words that K3s makes up for a cluster, which others of its machines
// have in their files, and what stands for each.
func (w *world) madeUp(guests map[string]*guest.Machine) map[string]string {
	out := map[string]string{}
	for _, g := range guests {
		for _, of := range []string{"token", "agent-token"} {
			if word, err := g.Disk().ReadFile("/var/lib/rancher/k3s/server/" + of); err == nil {
				out[strings.TrimSpace(string(word))] = "<" + of + " of the server>"
			}
		}
	}
	return out
}

// lasting folders of a machine are those in which what is written stays, and is ours,
// the distribution's or K3s' configuration.
func lastingFolders() []string {
	return []string{"/etc/", "/root/", "/home/", "/usr/local/", "/var/lib/rancher/k3s/server/manifests/", "/srv/"}
}

// unlike are files that no two machines have in common; that they are there counts.
func unlike() []string {
	return []string{"/etc/ssh/ssh_host_", "/etc/machine-id", "/etc/rancher/node/password", "/etc/rancher/k3s/k3s.yaml", "/etc/rancher/k3s/homelab.applied"} // the last is a digest of a provider ID, too
}

// joinToken is what an agent has joined with, which was made for it and is worth nothing by now.
var joinToken = regexp.MustCompile(`K10[0-9a-f]{64}::[a-z0-9]{6}\.[a-z0-9]{16}`)

// files are a line for each file of a machine that lasts.
func files(machine string, g *guest.Machine, secrets map[string]string) []string {
	begins := func(name string) func(string) bool {
		return func(prefix string) bool { return strings.HasPrefix(name, prefix) }
	}
	var out []string
	g.Disk().Walk(func(name string, perm fs.FileMode, data []byte) {
		if !slices.ContainsFunc(lastingFolders(), begins(name)) {
			return
		}
		for word, stands := range secrets {
			data = bytes.ReplaceAll(data, []byte(word), []byte(stands))
		}
		data = uuid.ReplaceAll(data, []byte("<uuid>"))
		data = providerID.ReplaceAll(data, []byte("$1<vmid>"))
		data = joinToken.ReplaceAll(data, []byte("<a join token>"))
		what := fmt.Sprintf("%x", sha256.Sum256(data))[:16]
		switch {
		case slices.ContainsFunc(unlike(), begins(name)):
			what = "there"
		case len(data) < 200:
			what = fmt.Sprintf("%q", data)
		}
		out = append(out, fmt.Sprintf("file %s %s %04o %s", machine, name, perm, what))
	})
	return out
}

// passing resources are what controllers write all the time, or keep of earlier versions.
func passingResources() []string {
	return []string{"events", "replicasets.apps", "leases.coordination.k8s.io", "endpoints", "endpointslices.discovery.k8s.io"}
}

// madeUpAnew is what each life makes up in an object: certificates, digests of what has been made
// up, the next address, port or number that is free.
func madeUpAnew() []*regexp.Regexp {
	return []*regexp.Regexp{madeUpDigest, madeUpCertificate, madeUpPlaces, madeUpPort}
}

var (
	uuid              = regexp.MustCompile(`[0-9a-f]{8}(?:-[0-9a-f]{4}){3}-[0-9a-f]{12}`) // of file systems and objects
	madeUpDigest      = regexp.MustCompile(`"(checksum/[^"]*|caBundle|clusterIP|podCIDR|resourceVersion|deployment\.kubernetes\.io/revision)":"[^"]*"`)
	madeUpPlaces      = regexp.MustCompile(`"(clusterIPs|podCIDRs)":\[[^]]*\]`)
	madeUpPort        = regexp.MustCompile(`"(nodePort)":[0-9]+`)
	madeUpCertificate = regexp.MustCompile(`-----BEGIN ([A-Z ]*)-----[^"]*`)
)

// withoutEmpty takes out empty lists and mappings, which are as good as none.
func withoutEmpty(m map[string]any) {
	for k, v := range m {
		switch v := v.(type) {
		case map[string]any:
			if withoutEmpty(v); len(v) == 0 {
				delete(m, k)
			}
		case []any:
			if len(v) == 0 {
				delete(m, k)
			}
		}
	}
}

// lasts is an object as a line, without what no two have in common. Pods are counted
// by what they belong to and where they are.
func lasts(t testing.TB, resource string, object map[string]any, pods map[string]int) string {
	t.Helper()
	if slices.Contains(passingResources(), resource) {
		return ""
	}
	js, err := json.Marshal(object)
	require.NoError(t, err)
	var o map[string]any
	require.NoError(t, json.Unmarshal(js, &o))
	meta, _ := o["metadata"].(map[string]any)
	owner := ""
	if owners, _ := meta["ownerReferences"].([]any); len(owners) > 0 {
		of, _ := owners[0].(map[string]any)
		owner = fmt.Sprintf("of %v %v", of["kind"], of["name"])
		if hash := strings.LastIndexByte(owner, '-'); of["kind"] == "ReplicaSet" {
			owner = strings.Replace(owner[:hash], "ReplicaSet", "Deployment", 1)
		}
		for _, x := range owners {
			delete(x.(map[string]any), "uid")
		}
	}
	if resource == "pods" {
		spec, _ := o["spec"].(map[string]any)
		status, _ := o["status"].(map[string]any)
		name, where := owner, "somewhere"
		if owner == "" {
			name = fmt.Sprint(meta["name"])
		}
		if strings.HasPrefix(owner, "of DaemonSet ") {
			where = fmt.Sprint(spec["nodeName"])
		}
		pods[fmt.Sprintf("%v/%s on %v: %v", meta["namespace"], name, where, status["phase"])]++
		return ""
	}
	for _, made := range []string{"uid", "resourceVersion", "creationTimestamp", "generation", "managedFields"} {
		delete(meta, made)
	}
	delete(o, "status")
	withoutEmpty(o)
	if resource == "secrets" {
		if strings.HasPrefix(fmt.Sprint(meta["name"]), "sh.helm.release.") {
			return "" // Helm keeps what has failed, too
		}
		data, _ := o["data"].(map[string]any)
		for key := range data {
			data[key] = "" // made up, mostly
		}
	}
	js, err = json.Marshal(o)
	require.NoError(t, err)
	line := uuid.ReplaceAllString(fmt.Sprintf("object %s %v/%v %s", resource, meta["namespace"], meta["name"], js), "<uuid>")
	line = providerID.ReplaceAllString(line, "$1<vmid>")
	for _, p := range madeUpAnew() {
		line = p.ReplaceAllString(line, "<$1>")
	}
	return line
}
