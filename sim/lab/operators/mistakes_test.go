package operators_test

import (
	"context"
	"errors"
	"fmt"
	"strings"
	"testing"
	"time"

	"github.com/stretchr/testify/require"
	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
)

// says waits for an event about an object that holds a text.
func (s *site) says(t *testing.T, namespace, object, words string) {
	t.Helper()
	eventually(t, 20*time.Second, object+" says why", func(ctx context.Context) error {
		events, err := s.core.CoreV1().Events(namespace).List(ctx, metav1.ListOptions{FieldSelector: "involvedObject.name=" + object})
		if err != nil {
			return err
		}
		var said []string
		for _, e := range events.Items {
			if strings.Contains(e.Message, words) {
				return nil
			}
			said = append(said, e.Message)
		}
		return fmt.Errorf("it said %q", said)
	})
}

const mistakes = `
apiVersion: cert-manager.io/v1
kind: Certificate
metadata: {name: misspelt, namespace: default}
spec: {secretName: misspelt, dnsNames: [a.example.org], issuerRef: {name: homelap, kind: ClusterIssuer}}
---
apiVersion: v1
kind: Service
metadata: {name: elsewhere, namespace: default, annotations: {metallb.io/loadBalancerIPs: 10.0.0.99}}
spec: {type: LoadBalancer, ports: [{port: 80}]}
---
apiVersion: v1
kind: Pod
metadata: {name: forgetful, namespace: default}
spec:
  containers: [{name: it, image: example.org/it, env: [{name: PASSWORD, valueFrom: {secretKeyRef: {name: nowhere, key: password}}}]}]
---
apiVersion: storage.k8s.io/v1
kind: StorageClass
metadata: {name: nowhere}
provisioner: rancher.io/local-path
volumeBindingMode: WaitForFirstConsumer
parameters: {nodePath: /scratch}
---
apiVersion: v1
kind: PersistentVolumeClaim
metadata: {name: never, namespace: default}
spec: {storageClassName: nowhere, accessModes: [ReadWriteOnce], resources: {requests: {storage: 1Gi}}}
---
apiVersion: v1
kind: Pod
metadata: {name: waits, namespace: default}
spec:
  containers: [{name: it, image: example.org/it, volumeMounts: [{name: v, mountPath: /v}]}]
  volumes: [{name: v, persistentVolumeClaim: {claimName: never}}]
`

// TestMistakesShow holds the lab to what it is for: what is wrong stays undone, and
// is named in the words of the program that would name it in life.
func TestMistakesShow(t *testing.T) {
	s := newSite(t, "servicelb")
	s.part(t, certificates())
	s.part(t, metallb())
	for _, document := range strings.Split(mistakes, "\n---\n") {
		eventually(t, 20*time.Second, "a mistake is made", func(ctx context.Context) error { return s.plane.Apply(ctx, []byte(document)) })
	}
	eventually(t, 20*time.Second, "the request says that the issuer is not there", func(ctx context.Context) error {
		r, err := s.get(ctx, "cert-manager.io", "v1", "certificaterequests", "default", "misspelt-1")
		if err != nil {
			return err
		}
		if text := fmt.Sprint(r.Object["status"]); !strings.Contains(text, `Referenced "ClusterIssuer" not found: clusterissuer.cert-manager.io "homelap" not found`) {
			return errors.New(text)
		}
		return nil
	})
	s.says(t, "default", "elsewhere", "is not allowed in config")
	s.says(t, "default", "forgetful", `secrets "nowhere" not found`)
	s.says(t, "default", "never", "config doesn't contain path /scratch on node")
	pod, err := s.core.CoreV1().Pods("default").Get(t.Context(), "forgetful", metav1.GetOptions{})
	require.NoError(t, err)
	require.Equal(t, corev1.PodPending, pod.Status.Phase)
	require.Equal(t, "CreateContainerConfigError", pod.Status.ContainerStatuses[0].State.Waiting.Reason)
}
