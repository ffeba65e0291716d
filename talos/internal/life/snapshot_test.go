package life_test

import (
	"bytes"
	"context"
	"crypto/tls"
	"crypto/x509"
	"net"
	"os"
	"path/filepath"
	"testing"
	"testing/synctest"
	"time"

	api "github.com/siderolabs/talos/pkg/machinery/api/machine"
	"github.com/siderolabs/talos/pkg/machinery/client"
	"github.com/siderolabs/talos/pkg/machinery/role"
	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"
	"google.golang.org/grpc"
	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"github.com/cps-gpu/homelab/kube"
	"github.com/cps-gpu/homelab/secret"
	"github.com/cps-gpu/homelab/talos/internal/secrets"
)

// administrator is Talos' own client, with a certificate of the secrets beside the file, as talosctl has it.
func (w *world) administrator(t *testing.T, address string) *client.Client {
	t.Helper()
	_, token := w.pve.Token()
	b, err := (&secrets.Store{Folder: w.dir, Cluster: "home", Token: secret.New(token)}).Read()
	require.NoError(t, err)
	pair, err := b.GenerateTalosAPIClientCertificate(role.MakeSet(role.Admin))
	require.NoError(t, err)
	own, err := tls.X509KeyPair(pair.Crt, pair.Key)
	require.NoError(t, err)
	roots := x509.NewCertPool()
	require.True(t, roots.AppendCertsFromPEM(b.Certs.OS.Crt))
	c, err := client.New(t.Context(), client.WithTLSConfig(&tls.Config{RootCAs: roots, ServerName: address, Certificates: []tls.Certificate{own}, MinVersion: tls.VersionTLS13}),
		client.WithEndpoints(address+":50000"), client.WithGRPCDialOptions(grpc.WithContextDialer(func(ctx context.Context, to string) (net.Conn, error) {
			return w.net.Dial(ctx, "tcp", to)
		})))
	require.NoError(t, err)
	t.Cleanup(func() { _ = c.Close() })
	return c
}

// retry repeats what a machine that restarts refuses.
func retry(t *testing.T, do func() error) {
	t.Helper()
	require.Eventually(t, func() bool { return do() == nil }, time.Minute, time.Second)
}

// configMaps are those of the namespace default, of the cluster that was made last.
func (w *world) configMaps() (out []string) {
	all := w.kube.Clusters()
	for _, name := range all[len(all)-1].Names("configmaps") {
		if filepath.Dir(name) == "default" {
			out = append(out, filepath.Base(name))
		}
	}
	return out
}

func (w *world) apply(t *testing.T, name string) {
	t.Helper()
	config, err := os.ReadFile(filepath.Join(w.dir, ".homelab", "kubeconfig"))
	require.NoError(t, err)
	c, err := kube.New(kube.Config{Kubeconfig: config, Dial: w.pve.Network().Dial})
	require.NoError(t, err)
	defer func() { _ = c.Close() }()
	_, err = c.Apply(t.Context(), &corev1.ConfigMap{TypeMeta: metav1.TypeMeta{APIVersion: "v1", Kind: "ConfigMap"}, ObjectMeta: metav1.ObjectMeta{Name: name, Namespace: "default"}})
	require.NoError(t, err)
}

// The snapshot before an upgrade restores the cluster by Talos' own client, in the order of its disaster recovery: the servers
// forget their etcd, and one begins with the snapshot. homelab then finds nothing to do.
func TestTheSnapshotBeforeAnUpgradeRestores(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		w := newWorld(t)
		nodes := cp1 + cp2 + cp3 + w1
		w.up(t, w.file(t, nodes))
		w.apply(t, "before")
		s := w.fileOf(t, "version: v1.13.8, kubernetes: v1.36.2", nodes)
		w.up(t, s)
		w.apply(t, "after")
		saved, err := filepath.Glob(filepath.Join(w.dir, ".homelab", "etcd", "*"))
		require.NoError(t, err)
		require.Len(t, saved, 1)
		snapshot, err := os.ReadFile(saved[0])
		require.NoError(t, err)

		for _, address := range []string{"10.0.0.11", "10.0.0.12", "10.0.0.13"} {
			wipe := &api.ResetRequest{Reboot: true, SystemPartitionsToWipe: []*api.ResetPartitionSpec{{Label: "EPHEMERAL", Wipe: true}}}
			require.NoError(t, w.administrator(t, address).ResetGeneric(t.Context(), wipe))
		}
		c := w.administrator(t, "10.0.0.11")
		retry(t, func() error {
			_, err := c.EtcdRecover(t.Context(), bytes.NewReader(snapshot))
			return err
		})
		retry(t, func() error { return c.Bootstrap(t.Context(), &api.BootstrapRequest{RecoverEtcd: true}) })

		w.up(t, s)
		assert.Contains(t, w.configMaps(), "before")
		assert.NotContains(t, w.configMaps(), "after")
		assert.Equal(t, map[string]string{"cp1": "server v1.36.2", "cp2": "server v1.36.2", "cp3": "server v1.36.2", "w1": "agent v1.36.2"}, w.nodes(t))
		assert.Len(t, w.net.Begun(), 1)
		assert.Equal(t, []string{"cp1", "cp2", "cp3"}, w.net.Members())
		assert.Empty(t, w.plan(t, s))
	})
}
