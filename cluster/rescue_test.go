package cluster_test

import (
	"bytes"
	"context"
	"crypto/ed25519"
	"crypto/rand"
	"crypto/x509"
	"crypto/x509/pkix"
	"encoding/pem"
	"io"
	"math/big"
	"strings"
	"testing"
	"testing/synctest"
	"time"

	"filippo.io/age"
	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"github.com/cps-gpu/homelab/cluster/backup"
	"github.com/cps-gpu/homelab/cluster/spec"
	"github.com/cps-gpu/homelab/converge"
	"github.com/cps-gpu/homelab/internal/share"
	"github.com/cps-gpu/homelab/secret"
	"github.com/cps-gpu/homelab/sim/guest"
	"github.com/cps-gpu/homelab/sim/pvesim"
)

// safeServers is a cluster with a quorum, and one agent.
const safeServers = `
name: safe
proxmox: {endpoint: lab}
network: {prefix: 10.0.0.0/24, gateway: 10.0.0.1}
k3s: {vip: 10.0.0.10}
pools:
  cp: {role: server, count: 3, addresses: [10.0.0.11, 10.0.0.12, 10.0.0.13]}
  wk: {count: 1, addresses: [10.0.0.21]}
`

// vault is a backup in memory, and the key that opens it.
type vault struct {
	key  *age.X25519Identity
	file []byte
}

func (w *world) backup(t *testing.T, want *spec.Spec) (vault, backup.Manifest) {
	t.Helper()
	key, err := age.GenerateX25519Identity()
	require.NoError(t, err)
	c := w.cluster(t, want)
	defer c.Close()
	var out bytes.Buffer
	m, _, err := c.Backup(t.Context(), &out, []age.Recipient{key.Recipient()})
	require.NoError(t, err)
	return vault{key, out.Bytes()}, m
}

func (v vault) open() (*backup.Reader, io.Closer, error) {
	r, err := backup.Open(bytes.NewReader(v.file), v.key)
	return r, io.NopCloser(nil), err
}

// restore runs a restore to its end, or until ctx ends.
func (w *world) restore(ctx context.Context, t *testing.T, want *spec.Spec, v vault) (*converge.Report, error) {
	t.Helper()
	r, _, err := v.open()
	require.NoError(t, err)
	c := w.cluster(t, want)
	defer c.Close()
	g, err := c.Restore(r.Contents, v.open)
	require.NoError(t, err)
	return g.Run(ctx, w.listen(t))
}

func (w *world) configMaps(t *testing.T) []string {
	t.Helper()
	var out []string
	all := w.kube.Clusters()
	for _, name := range all[len(all)-1].Names("configmaps") {
		if strings.HasPrefix(name, "default/") && name != "default/kube-root-ca.crt" {
			out = append(out, name)
		}
	}
	return out
}

func (w *world) kubectlApply(t *testing.T, name string) {
	t.Helper()
	all := w.kube.Clusters()
	require.NoError(t, all[len(all)-1].Apply(t.Context(), []byte("apiVersion: v1\nkind: ConfigMap\nmetadata: {name: "+name+", namespace: default}\n")))
}

// What was there when the backup was made is there again, and what came later is gone, on
// three servers and the agent, and nothing is left to do.
func TestRestoreGoesBack(t *testing.T) {
	inWorld(t, pvesim.EightA100(), func(t *testing.T, w *world) {
		want := parse(t, safeServers)
		w.up(t, want)
		w.kubectlApply(t, "before")
		v, m := w.backup(t, want)
		assert.Equal(t, "safe", m.Cluster)
		assert.Equal(t, []string{"cp1", "cp2", "cp3"}, m.Servers)
		assert.Equal(t, 4, m.Objects["nodes"], "what does not change while it is made is counted")
		for name, g := range w.guests() {
			assert.NotContains(t, ask(t, g, "sh", "-c", "ls /var/lib/rancher/k3s/server/db/snapshots 2>/dev/null || true"), "homelab-backup", name)
		}
		w.kubectlApply(t, "after")

		r, _, err := v.open()
		require.NoError(t, err)
		facts, err := backup.Inspect(t.Context(), r, r.Snapshot, r.Token)
		require.NoError(t, err)
		assert.Equal(t, []string{"cp1", "cp2", "cp3", "wk1"}, facts.Nodes)
		assert.Contains(t, facts.Namespaces, "kube-system")
		assert.True(t, facts.SecretsKey)

		_, err = w.restore(t.Context(), t, want, v)
		require.NoError(t, err)
		assert.Equal(t, []string{"default/before"}, w.configMaps(t))
		assert.Equal(t, []string{"cp1", "cp2", "cp3"}, w.guests()["cp1"].EtcdMembers())
		time.Sleep(2 * time.Minute)
		for name, n := range w.nodes(t) {
			assert.True(t, n.Ready, name)
		}
		assert.Empty(t, w.plan(t, want))
		assert.NotContains(t, w.output.String(), r.Token.Reveal())
		assert.NotContains(t, w.output.String(), "has not joined yet")
	})
}

// A restore that is cut short anywhere leaves no server that starts with the state of before,
// cluster:up says so, and repeating it comes to the same end.
func TestRestoreCutShort(t *testing.T) {
	inWorld(t, pvesim.EightA100(), func(t *testing.T, w *world) {
		want := parse(t, safeServers)
		w.up(t, want)
		w.kubectlApply(t, "before")
		v, _ := w.backup(t, want)
		finished, mine := false, share.Start(t, "restores cut short")
		for cut := time.Second; !finished; cut += 7 * time.Second {
			if !mine.Next() {
				continue
			}
			w.kubectlApply(t, "after")
			ctx, cancel := context.WithTimeout(t.Context(), cut)
			_, err := w.restore(ctx, t, want, v)
			cancel()
			finished = err == nil
			if !finished {
				c := w.cluster(t, want)
				plan, err := c.Up().Plan(t.Context())
				require.NoError(t, err)
				c.Close()
				if err := plan.Err(); err != nil {
					assert.ErrorContains(t, err, "run cluster:restore again", "cut after %s", cut)
				}
			}
			_, err = w.restore(t.Context(), t, want, v)
			require.NoError(t, err, "cut after %s", cut)
			assert.Equal(t, []string{"default/before"}, w.configMaps(t), "cut after %s", cut)
			assert.Equal(t, []string{"cp1", "cp2", "cp3"}, w.guests()["cp1"].EtcdMembers(), "cut after %s", cut)
			require.Less(t, cut, 10*time.Minute)
		}
		time.Sleep(2 * time.Minute)
		assert.Empty(t, w.plan(t, want))
	})
}

// A backup restores onto new machines too, whose cluster had another authority and other
// tokens, and whose names belong to machines that are gone.
func TestRestoreOntoNewMachines(t *testing.T) {
	inWorld(t, pvesim.EightA100(), func(t *testing.T, w *world) {
		want := parse(t, safeServers)
		const first = 301 // of the new VM, and no earlier one's
		again := parse(t, safeServers+"nodes: {cp1: {vmid: 301}}\n")
		w.up(t, want)
		w.kubectlApply(t, "before")
		v, _ := w.backup(t, want)
		c := w.cluster(t, want)
		g, err := c.Down(t.Context())
		require.NoError(t, err)
		_, err = g.Run(t.Context(), w.listen(t))
		require.NoError(t, err)
		c.Close()
		w.up(t, again)
		assert.Empty(t, w.configMaps(t))

		_, err = w.restore(t.Context(), t, again, v)
		require.NoError(t, err)
		assert.Equal(t, []string{"default/before"}, w.configMaps(t))
		assert.Equal(t, []string{"cp1", "cp2", "cp3"}, w.guests()["cp1"].EtcdMembers())
		time.Sleep(2 * time.Minute)
		for name, n := range w.nodes(t) { // with the kubeconfig that the restore has written
			assert.True(t, n.Ready, name)
		}
		earlier, _ := w.node("cp1")["spec"].(map[string]any)
		w.knownAs = map[string]string{"cp1": earlier["providerID"].(string)}
		assert.NotEqual(t, spec.ProviderID("safe", first), w.knownAs["cp1"])
		w.up(t, again) // it owns the labels of nodes that have registered again
		assert.Empty(t, w.plan(t, again))
		found := w.examine(t, again)
		require.Len(t, found, 1, "the first server's Node is that of the snapshot")
		assert.Contains(t, found[0], "provider-id of node cp1: it is "+w.knownAs["cp1"]+", and its machine is proxmox://safe/301")
	})
}

// K3s takes snapshots by the schedule, keeps as many as the file says, and copies them to the
// bucket. One of them restores by its name.
func TestScheduledSnapshots(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		t.Setenv("S3_ID", "AKIA0")
		t.Setenv("S3_KEY", "5ec2e7")
		w := newWorld(t, pvesim.EightA100())
		guest.OfferBucket(w.sim.Network(), "minio.home.arpa:9000", "etcd", "AKIA0", "5ec2e7")
		text := strings.Replace(safeServers, "vip: 10.0.0.10", `vip: 10.0.0.10, snapshots: {schedule: "0 * * * *", retention: 2, `+
			`s3: {endpoint: "http://minio.home.arpa:9000", bucket: etcd, folder: safe, accessKey: env:S3_ID, secretKey: env:S3_KEY}}`, 1)
		want := parse(t, text)
		w.up(t, want)
		time.Sleep(3*time.Hour + 10*time.Minute)
		inBucket := guest.BucketKeys(w.sim.Network(), "minio.home.arpa:9000", "etcd")
		require.NotEmpty(t, inBucket)
		for _, key := range inBucket {
			assert.Regexp(t, `^safe/etcd-snapshot-cp[123]-[0-9]+$`, key)
		}
		cp1 := w.guests()["cp1"]
		here := strings.Fields(ask(t, cp1, "ls", "/var/lib/rancher/k3s/server/db/snapshots"))
		assert.Len(t, here, 2, "as many as the retention says")
		config := ask(t, cp1, "cat", "/etc/rancher/k3s/config.yaml")
		assert.Contains(t, config, "etcd-s3-endpoint: minio.home.arpa:9000")
		assert.NotContains(t, config+w.output.String(), "5ec2e7")

		w.kubectlApply(t, "later")
		c := w.cluster(t, want)
		_, err := c.RestoreSnapshot(t.Context(), "nothing-cp1-1")
		require.ErrorContains(t, err, "there is no snapshot of that name")
		g, err := c.RestoreSnapshot(t.Context(), here[1])
		require.NoError(t, err)
		_, err = g.Run(t.Context(), w.listen(t))
		require.NoError(t, err)
		c.Close()
		assert.Empty(t, w.configMaps(t))

		// With another key K3s warns, in its own words, and saves on the disk alone.
		t.Setenv("S3_KEY", "0ther")
		time.Sleep(2 * time.Minute)
		w.up(t, want)
		time.Sleep(2 * time.Hour)
		assert.Contains(t, ask(t, cp1, "journalctl", "-u", "k3s", "--no-pager", "-n", "200", "-o", "cat"),
			`Unable to initialize S3 client: failed to test for existence of bucket etcd: Access Denied.`)
		assert.NotContains(t, w.output.String(), "0ther")
	})
}

// A token that is not of the snapshot is told before K3s is asked to start with it.
func TestRestoreWithAnotherToken(t *testing.T) {
	inWorld(t, pvesim.EightA100(), func(t *testing.T, w *world) {
		want := parse(t, safeServers)
		w.up(t, want)
		v, _ := w.backup(t, want)
		r, _, err := v.open()
		require.NoError(t, err)
		r.Token = secret.New("K10" + strings.Repeat("0", 64) + "::server:0123456789abcdef")
		c := w.cluster(t, want)
		defer c.Close()
		g, err := c.Restore(r.Contents, v.open)
		require.NoError(t, err)
		_, err = g.Run(t.Context(), w.listen(t))
		require.ErrorContains(t, err, "the token is not the one that the cluster had when the snapshot was taken")
		assert.NotContains(t, err.Error(), "0123456789abcdef")

		_, err = w.restore(t.Context(), t, want, v) // the right one
		require.NoError(t, err)
	})
}

// agedInPlace replaces the certificate of an agent's node by the one on stdin. The lines before it,
// by which simulated servers know the node, stay.
const agedInPlace = `f=/var/lib/rancher/k3s/agent/client-kubelet.crt; grep -E '^(cluster|node): ' $f >/tmp/old; cat /tmp/old - >$f`

// aged is a certificate that ends in some days.
func aged(t *testing.T, days int) []byte {
	t.Helper()
	public, key, err := ed25519.GenerateKey(nil)
	require.NoError(t, err)
	c := &x509.Certificate{SerialNumber: big.NewInt(1), Subject: pkix.Name{CommonName: "system:node:old"},
		NotBefore: time.Now().AddDate(0, 0, days-365), NotAfter: time.Now().AddDate(0, 0, days)}
	der, err := x509.CreateCertificate(rand.Reader, c, c, public, key)
	require.NoError(t, err)
	return pem.EncodeToMemory(&pem.Block{Type: "CERTIFICATE", Bytes: der})
}

// Certificates age; one node after the other gets new ones.
func TestCertificates(t *testing.T) {
	inWorld(t, pvesim.EightA100(), func(t *testing.T, w *world) {
		want := parse(t, safeServers)
		w.up(t, want)
		old := aged(t, 100)
		for _, m := range w.guests() {
			pid, err := m.AgentExec([]string{"sh", "-c", agedInPlace}, old)
			require.NoError(t, err)
			for status, err := m.AgentStatus(pid); !status.Exited; status, err = m.AgentStatus(pid) {
				require.NoError(t, err)
				time.Sleep(time.Second)
			}
		}
		c := w.cluster(t, want)
		defer c.Close()
		for _, on := range c.Certs(t.Context()) {
			require.NoError(t, on.Err, on.Node)
			require.NotEmpty(t, on.All, on.Node)
			assert.Equal(t, "client-kubelet.crt", on.All[0].File)
			assert.InDelta(t, 100, time.Until(on.All[0].Until).Hours()/24, 1, on.Node)
		}
		fewest := 4
		done := make(chan struct{})
		go func() {
			defer close(done)
			_, err := c.RotateCerts().Run(t.Context(), w.listen(t))
			assert.NoError(t, err)
		}()
		for going := true; going; {
			select {
			case <-done:
				going = false
			case <-time.After(time.Second):
				up := 0
				for name, m := range w.guests() {
					unit := map[bool]string{true: "k3s-agent", false: "k3s"}[name == "wk1"]
					if strings.Contains(ask(t, m, "systemctl", "show", "--property=ActiveState", unit), "=active") {
						up++
					}
				}
				fewest = min(fewest, up)
			}
		}
		assert.Equal(t, 3, fewest, "one is away at a time")
		for _, on := range c.Certs(t.Context()) {
			require.NoError(t, on.Err, on.Node)
			assert.InDelta(t, 365, time.Until(on.All[0].Until).Hours()/24, 1, on.Node)
		}
		plan, err := c.RotateCerts().Plan(t.Context())
		require.NoError(t, err)
		assert.False(t, plan.Changes(), "they are new")
	})
}
