package operators_test

import (
	"context"
	"errors"
	"fmt"
	"os"
	"strings"
	"testing"
	"time"

	"filippo.io/age"
	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"
	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/apimachinery/pkg/runtime/schema"

	"github.com/cps-gpu/homelab/fleet"
	"github.com/cps-gpu/homelab/secret"
)

// sopsFolder is a user's folder with a Secret that the command sops has encrypted (testdata/sops/README.md).
func sopsFolder(t *testing.T) fleet.Tree {
	t.Helper()
	text, err := os.ReadFile("testdata/sops/secret.yaml")
	require.NoError(t, err)
	return fleet.Tree{"kustomization.yaml": []byte("resources: [secret.yaml]\n"), "secret.yaml": text}
}

func sopsKey(t *testing.T, file string) string {
	t.Helper()
	key, err := os.ReadFile("../../../internal/sops/testdata/" + file)
	require.NoError(t, err)
	return string(key)
}

// What SOPS has encrypted comes into the cluster in plain text; with another key, or where no key is asked for, the status
// says what kustomize-controller says.
func TestFluxDecrypts(t *testing.T) {
	s := newFluxSiteWith(t, sopsKey(t, "keys.txt"))
	s.git.commit(t, sopsFolder(t))
	s.kustomized(t, "fleet", "Applied revision: main@sha1:")
	its, err := s.core.CoreV1().Secrets("default").Get(t.Context(), "app", metav1.GetOptions{})
	require.NoError(t, err)
	assert.Equal(t, map[string][]byte{"password": []byte("lovelace"), "port": []byte("5432"), "empty": {}}, its.Data)
	assert.Equal(t, corev1.SecretTypeOpaque, its.Type)

	other, err := age.GenerateX25519Identity()
	require.NoError(t, err)
	s.putKey(t, fleet.GitRepo{SOPSKey: secret.New(other.String())}.DecryptionKey())
	changed := sopsFolder(t)
	changed["README.md"] = []byte("another commit\n")
	commit := s.git.commit(t, changed)
	s.kustomized(t, "fleet", `decryption failed for 'Secret.v1.[noGrp]/app': failed to decrypt and format 'default/app' Secret data: cannot get sops data key: Failed to get the data key required to decrypt the SOPS file.

Group 0: FAILED
  age1zzpz0gkf62s0exe6and52p4p6nlqv9rpf9g5kgdu8zssp8dtkp6qa3zr67: FAILED
    - | failed to create reader for decrypting sops data key with
      | age: identity did not match any of the recipients: incorrect
      | identity for recipient block

Recovery failed because no master key was able to decrypt the file. In
order for SOPS to recover the file, at least one key has to be successful,
but none were.`)
	s.says(t, commit, "cannot get sops data key: Failed to get the data key required to decrypt the SOPS file.")
	_, err = s.core.CoreV1().Secrets("default").Get(t.Context(), "app", metav1.GetOptions{})
	require.NoError(t, err, "what is deployed stays")

	// A folder that another Kustomization deploys, without a key.
	inner := fleet.Tree{"kustomization.yaml": []byte("resources: [inner.yaml]\n"), "inner.yaml": []byte(`apiVersion: kustomize.toolkit.fluxcd.io/v1
kind: Kustomization
metadata: {name: inner, namespace: homelab-flux}
spec: {interval: 1m, path: fleet/inner, prune: true, sourceRef: {kind: GitRepository, name: homelab}}
`)}
	for name, text := range sopsFolder(t) {
		inner["inner/"+name] = text
	}
	s.git.commit(t, inner)
	s.kustomized(t, "inner", "Secret/default/app is SOPS encrypted, configuring decryption is required for this secret to be reconciled")
}

// kustomized waits until a Kustomization whose name ends so says something.
func (s fluxSite) kustomized(t *testing.T, name, text string) {
	t.Helper()
	kinds := schema.GroupVersionResource{Group: "kustomize.toolkit.fluxcd.io", Version: "v1", Resource: "kustomizations"}
	eventually(t, 30*time.Second, name+" is "+text, func(ctx context.Context) error {
		all, err := s.dynamic.Resource(kinds).Namespace("homelab-flux").List(ctx, metav1.ListOptions{})
		if err != nil {
			return err
		}
		var said []string
		for _, k := range all.Items {
			list, _, _ := unstructured.NestedSlice(k.Object, "status", "conditions")
			for _, c := range list {
				said = append(said, fmt.Sprint(c.(map[string]any)["message"]))
				if strings.HasSuffix(k.GetName(), name) && strings.HasPrefix(said[len(said)-1], text) {
					return nil
				}
			}
		}
		return errors.New(strings.Join(said, "\n"))
	})
}
