package examples_test

import (
	"fmt"
	"maps"
	"os"
	"path/filepath"
	"regexp"
	"slices"
	"strings"
	"testing"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"github.com/cps-gpu/homelab/cluster"
)

// around is the file that a fragment of a page is put into: each of its top-level keys
// takes the place of the one here.
var around = map[string]string{
	"name":         "name: pages",
	"proxmox":      "proxmox: {endpoint: lab}",
	"network":      "network: {prefix: 10.0.0.0/24, gateway: 10.0.0.1}",
	"storage":      "storage: {nfs: {server: 10.0.0.30, export: /export/k3s, shares: {datasets: {export: /export/datasets}}}, scratch: true}",
	"tls":          "tls: self-signed",
	"loadBalancer": "loadBalancer: {addresses: [10.0.0.200-10.0.0.219]}",
	"hub":          "hub: {hostname: hub.lab.example, auth: {kind: native, admins: [teacher]}}",
	"pools": `pools:
  cp: {role: server, count: 3, addresses: [10.0.0.11-10.0.0.13], cores: 8, memory: 32GiB}
  wk-gpu:
    count: 2
    addresses: [10.0.0.21-10.0.0.22]
    cores: 32
    memory: 256GiB
    gpus: 2
    disks: {os: {size: 100GiB}, scratch: {size: 1TiB, mount: /scratch}}`,
	"k3s": "k3s: {vip: 10.0.0.100}",
}

// beside is what a page assumes of the rest of the file; by the page.
var beside = map[string]string{
	"distributions.md": "nvidia: {driver: {mode: dkms}}",
	"images.md":        "pools: {cp: {role: server, count: 1, addresses: [10.0.0.11]}}\nstorage:\nhub:",
	"gitops.md":        "monitoring: {hostname: grafana.lab.example}",
	"login.md":         "hub:\nmonitoring:",
	"mig.md":           "storage:",
	"lab-vms.md":       "pools: {cp: {role: server, count: 1, addresses: [10.0.0.11]}}\nhub:",
	"kubeadm.md":       "pools: {cp: {role: server, count: 1, addresses: [10.0.0.11]}, wk: {count: 2, addresses: [10.0.0.21-10.0.0.22]}}\nk3s:\nstorage:\nhub:",
	"models.md":        "pools: {cp: {role: server, count: 1, addresses: [10.0.0.11]}, wk: {count: 1, addresses: [10.0.0.21], gpus: {count: 1, model: RTX 4090}}}\nstorage:",
	"nodes.md":         "pools: {cp: {role: server, count: 1, addresses: [10.0.0.11]}, wk: {count: 2, addresses: [10.0.0.21-10.0.0.22]}}\nstorage:\nhub:",
	"platform.md":      "hub:",
	"queues.md": `pools:
  cp: {role: server, count: 1, addresses: [10.0.0.11]}
  whole: {count: 4, addresses: [10.0.0.21-10.0.0.24], gpus: 2}
  divided:
    count: 2
    addresses: [10.0.0.25-10.0.0.26]
    gpus: {count: 2, sharing: {strategy: mig, layouts: [{gpus: [1], profiles: {1g.5gb: 7}}]}}
storage:`,
	"vms.md":   "pools: {cp: {role: server, count: 1, addresses: [10.0.0.11]}}\nstorage:\nhub:",
	"trial.md": "pools: {cp: {role: server, count: 1, addresses: [10.0.0.11]}}\nstorage:\nhub:",
}

// yours are the words that stand for something of the reader's own.
var yours = strings.NewReplacer(
	`"AB:CD:…"`, `"`+strings.Repeat("7E:", 31)+`7E"`, `"7E:14:…"`, `"`+strings.Repeat("7E:", 31)+`7E"`,
	"registry-ca.pem", "mixed-hosts/pve-root-ca.pem", "pve-root-ca.pem", "mixed-hosts/pve-root-ca.pem",
	"ca.pem", "mixed-hosts/pve-root-ca.pem",
	"kubeconfig: harvester.yaml", "kubeconfig: mixed-hosts/pve-root-ca.pem", "airgap: k3s-files", "airgap: mixed-hosts", "folder: charts", "folder: ../sim/lab/charts",
)

// notFiles are blocks that are no part of a cluster file, by their first line.
var notFiles = map[string]string{
	"apiVersion: cert-manager.io/v1":             "an object of cert-manager",
	"apiVersion: v1":                             "an object of Kubernetes",
	"lab: {guests: qemu, image: /srv/debian-13}": "a folder of the reader's",
}

var yamlBlock = regexp.MustCompile("(?s)```yaml\n(.*?)```")

// TestPagesLoad reads every cluster file and every fragment of one in README and docs, as
// it stands there.
func TestPagesLoad(t *testing.T) {
	pages, err := filepath.Glob("../docs/*.md")
	require.NoError(t, err)
	read, readme := 0, ""
	for _, page := range append(pages, "../README.md") {
		if filepath.Base(page) == "fleet-lint.md" {
			continue // Fleet's files, which the linter's own test reads
		}
		text, err := os.ReadFile(page)
		require.NoError(t, err)
		for _, m := range yamlBlock.FindAllSubmatchIndex(text, -1) {
			block := string(text[m[2]:m[3]])
			first, _, _ := strings.Cut(block, "\n")
			if notFiles[first] != "" {
				continue
			}
			where := fmt.Sprintf("%s:%d", filepath.Base(page), 1+strings.Count(string(text[:m[2]]), "\n"))
			more := beside[filepath.Base(page)]
			if filepath.Base(page) == "README.md" { // its second block is added to its first
				more, readme = readme, readme+block
			}
			spec, err := cluster.Parse(where, []byte(yours.Replace(whole(block, more))))
			if assert.NoError(t, err, where) && readme != "" {
				assert.Empty(t, spec.Warnings, where)
			}
			read++
		}
	}
	assert.Greater(t, read, 24)
}

var topKey = regexp.MustCompile(`(?m)^([a-zA-Z0-9]+):`)

// whole makes a file of a fragment.
func whole(block, more string) string {
	keys := func(text string) (out []string) {
		for _, m := range topKey.FindAllStringSubmatch(text, -1) {
			out = append(out, m[1])
		}
		return out
	}
	own := true
	if slices.Equal(keys(block), []string{"auth"}) {
		block = "hub:\n  hostname: hub.lab.example\n  " + strings.ReplaceAll(strings.TrimSpace(block), "\n", "\n  ") + "\n"
	}
	if slices.Contains(keys(block), "name") {
		return block
	}
	out := block + "\n"
	for part := range strings.SplitSeq(more, "\n") { // a key of the page itself counts more
		if m := topKey.FindStringSubmatch(part); m != nil {
			own = !slices.Contains(keys(block), m[1])
		}
		if own {
			out += part + "\n"
		}
	}
	said := keys(out)
	if slices.Contains(said, "name") {
		return out
	}
	for _, key := range slices.Sorted(maps.Keys(around)) {
		if !slices.Contains(said, key) {
			out += around[key] + "\n"
		}
	}
	return out
}
