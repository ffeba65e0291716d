package plane_test

import (
	"bytes"
	"context"
	"strconv"
	"testing"
	"time"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"
	corev1 "k8s.io/api/core/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime/schema"
	"k8s.io/client-go/kubernetes"

	"github.com/cps-gpu/homelab/sim/guest"
	"github.com/cps-gpu/homelab/sim/lab/internal/labtest"
	"github.com/cps-gpu/homelab/sim/lab/plane"
	"github.com/cps-gpu/homelab/sim/lab/plane/real"
)

// writer counts in a ConfigMap and in a Secret.
type writer struct{ client *kubernetes.Clientset }

const counter, hidden = "counter", "hidden-"

func (w writer) write(t *testing.T, n int) {
	t.Helper()
	maps, secrets := w.client.CoreV1().ConfigMaps("default"), w.client.CoreV1().Secrets("default")
	text := strconv.Itoa(n)
	cm := &corev1.ConfigMap{ObjectMeta: metav1.ObjectMeta{Name: counter}, Data: map[string]string{"n": text}}
	s := &corev1.Secret{ObjectMeta: metav1.ObjectMeta{Name: counter}, StringData: map[string]string{"n": hidden + text}}
	_, err := maps.Update(t.Context(), cm, metav1.UpdateOptions{})
	if apierrors.IsNotFound(err) {
		_, err = maps.Create(t.Context(), cm, metav1.CreateOptions{})
	}
	require.NoError(t, err)
	_, err = secrets.Update(t.Context(), s, metav1.UpdateOptions{})
	if apierrors.IsNotFound(err) {
		_, err = secrets.Create(t.Context(), s, metav1.CreateOptions{})
	}
	require.NoError(t, err)
}

// reads returns what was written last.
func (w writer) reads(t *testing.T) (n string, secret string) {
	t.Helper()
	cm, err := w.client.CoreV1().ConfigMaps("default").Get(t.Context(), counter, metav1.GetOptions{})
	require.NoError(t, err)
	s, err := w.client.CoreV1().Secrets("default").Get(t.Context(), counter, metav1.GetOptions{})
	require.NoError(t, err)
	return cm.Data["n"], string(s.Data["n"])
}

func save(t *testing.T, p guest.Plane) *guest.PlaneSaved {
	t.Helper()
	saver, ok := p.(guest.PlaneSaver)
	require.True(t, ok)
	saved, err := saver.Save(t.Context())
	require.NoError(t, err)
	return saved
}

// A control plane that starts from a snapshot has what was there then, with its Secrets, and not
// what came later. It is the same cluster to those who know its authority.
func TestSavedAndRestored(t *testing.T) {
	f := factory(t, labtest.Real())
	first, err := f.Form(t.Context(), guest.PlaneConfig{TLSSANs: []string{vip}, Version: "v1.36.5+k3s1"})
	require.NoError(t, err)
	require.NoError(t, first.Join(t.Context(), newWorker("gpu1", "10.0.0.21", 0).Node))
	w := writer{client(t, first)}
	for n := range 3 {
		w.write(t, n)
	}
	saved := save(t, first)
	assert.False(t, bytes.Contains(saved.Snapshot, []byte(hidden)), "Secrets are not in the clear")
	w.write(t, 3)
	require.NoError(t, w.client.CoreV1().Secrets("default").Delete(t.Context(), counter, metav1.DeleteOptions{}))
	_, err = w.client.CoreV1().Namespaces().Create(t.Context(), &corev1.Namespace{ObjectMeta: metav1.ObjectMeta{Name: "later"}}, metav1.CreateOptions{})
	require.NoError(t, err)

	again, err := f.Form(t.Context(), guest.PlaneConfig{TLSSANs: []string{vip}, Version: "v1.36.5+k3s1", Saved: saved})
	require.NoError(t, err)
	require.NoError(t, first.Close())
	back := writer{client(t, again)}
	n, secret := back.reads(t)
	assert.Equal(t, "2", n)
	assert.Equal(t, hidden+"2", secret)
	_, err = back.client.CoreV1().Namespaces().Get(t.Context(), "later", metav1.GetOptions{})
	assert.True(t, apierrors.IsNotFound(err), "%v", err)
	node, err := back.client.CoreV1().Nodes().Get(t.Context(), "gpu1", metav1.GetOptions{})
	require.NoError(t, err)
	assert.False(t, isReady(node), "its kubelet has not joined")
	require.NoError(t, again.Join(t.Context(), newWorker("gpu1", "10.0.0.21", 0).Node))
	eventually(t, 20*time.Second, "the node is Ready again", func(context.Context) error {
		node, err := back.client.CoreV1().Nodes().Get(t.Context(), "gpu1", metav1.GetOptions{})
		if err != nil {
			return err
		}
		return is("ready", true, isReady(node))
	})
	back.write(t, 9)
	second := save(t, again)
	assert.Equal(t, saved.Authority, second.Authority)
	assert.Equal(t, saved.Encryption, second.Encryption)
	t.Run("refused", func(t *testing.T) { refusedSnapshots(t, f, saved) })
	t.Run("scratch", func(t *testing.T) { readSnapshot(t, saved) })
}

func isReady(n *corev1.Node) bool {
	for _, c := range n.Status.Conditions {
		if c.Type == corev1.NodeReady {
			return c.Status == corev1.ConditionTrue
		}
	}
	return false
}

// What is not a whole snapshot of this etcd is refused, with the reason.
func refusedSnapshots(t *testing.T, f *plane.Factory, saved *guest.PlaneSaved) {
	flipped := bytes.Clone(saved.Snapshot)
	flipped[len(flipped)/2] ^= 1
	for want, file := range map[string][]byte{
		"checksum does not match": flipped,
		"or was cut off":          saved.Snapshot[:len(saved.Snapshot)-100],
	} {
		damaged := *saved
		damaged.Snapshot = file
		_, err := f.Form(t.Context(), guest.PlaneConfig{TLSSANs: []string{vip}, Saved: &damaged})
		require.ErrorContains(t, err, want)
	}
	_, err := f.Form(t.Context(), guest.PlaneConfig{TLSSANs: []string{vip}, Saved: &guest.PlaneSaved{Snapshot: saved.Snapshot}})
	require.ErrorContains(t, err, "no authority with its key")
}

// An API server alone reads what is in a snapshot, and says which Secrets it cannot decrypt.
func readSnapshot(t *testing.T, saved *guest.PlaneSaved) {
	dir := t.TempDir()
	o := real.Options{Dir: dir + "/data", Logs: dir + "/log", Exe: labtest.Binary(t, labtest.Real())}
	is, err := real.Read(t.Context(), o, real.Snapshot{File: saved.Snapshot, Encryption: saved.Encryption})
	require.NoError(t, err)
	assert.Empty(t, is.Unread)
	assert.Equal(t, 1, is.Objects[schema.GroupResource{Resource: "nodes"}])
	assert.Equal(t, 4, is.Objects[schema.GroupResource{Resource: "namespaces"}])
	assert.Positive(t, is.Objects[schema.GroupResource{Resource: "secrets"}])
	assert.NoDirExists(t, dir+"/data/scratch")

	// With another key of the same shape.
	other := bytes.Replace(saved.Encryption, secretOf(t, saved.Encryption), []byte("AAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAA="), 1)
	is, err = real.Read(t.Context(), o, real.Snapshot{File: saved.Snapshot, Encryption: other})
	require.NoError(t, err)
	require.Len(t, is.Unread, 1)
	// Which one it cannot read it says only where the padding shows that the key is another: 255 times of 256.
	require.Error(t, is.Unread[schema.GroupResource{Resource: "secrets"}])
}

// secretOf is the key in the API server's configuration.
func secretOf(t *testing.T, config []byte) []byte {
	t.Helper()
	_, rest, ok := bytes.Cut(config, []byte(`"secret":"`))
	require.True(t, ok)
	key, _, _ := bytes.Cut(rest, []byte(`"`))
	return key
}
