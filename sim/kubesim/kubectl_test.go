package kubesim_test

import (
	"context"
	"flag"
	"io"
	"net/http"
	"os"
	"os/exec"
	"path/filepath"
	"regexp"
	"strings"
	"testing"
	"time"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"
	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/client-go/kubernetes"
	"k8s.io/client-go/tools/clientcmd"

	"github.com/cps-gpu/homelab/sim/facts"
	"github.com/cps-gpu/homelab/sim/guest"
	"github.com/cps-gpu/homelab/sim/kubesim"
)

var update = flag.Bool("update", false, "rewrite golden files")

func compare(t *testing.T, file, got string) {
	t.Helper()
	if *update {
		require.NoError(t, os.WriteFile(file, []byte(got), 0o600))
	}
	want, err := os.ReadFile(file)
	require.NoError(t, err)
	assert.Equal(t, string(want), got)
}

// terminal runs kubectl against a control plane that listens on a port.
type terminal struct {
	plane
	program, kubeconfig, cache string
}

func open(t *testing.T) terminal {
	t.Helper()
	program := facts.Program(t, "kubectl", "kubernetes-client")
	kubelet := func(string) http.Handler {
		return http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
			if strings.HasPrefix(r.URL.Path, "/containerLogs/") {
				_, _ = io.WriteString(w, "log of "+strings.TrimPrefix(r.URL.Path, "/containerLogs/default/")+"\n")
				return
			}
			http.Error(w, "no "+r.URL.Path, http.StatusNotImplemented)
		})
	}
	c, err := kubesim.NewPlane(t.Context(), guest.PlaneConfig{Version: "v1.36.5+k3s1"}, kubesim.Backends{Kubelet: kubelet})
	require.NoError(t, err)
	t.Cleanup(func() { require.NoError(t, c.Close()) })
	address, err := c.Listen(t.Context(), "127.0.0.1:0")
	require.NoError(t, err)
	dir := t.TempDir()
	term := terminal{plane: plane{Cluster: c}, program: program, kubeconfig: filepath.Join(dir, "kubeconfig"), cache: filepath.Join(dir, "cache")}
	kubeconfig := c.Kubeconfig("https://" + address.String())
	require.NoError(t, os.WriteFile(term.kubeconfig, kubeconfig, 0o600))
	term.config, err = clientcmd.RESTConfigFromKubeConfig(kubeconfig)
	require.NoError(t, err)
	term.client, err = kubernetes.NewForConfig(term.config)
	require.NoError(t, err)
	return term
}

var (
	passing = regexp.MustCompile(`\b\d+s\b`)
	random  = regexp.MustCompile(`(web-[a-z0-9]+|agent|once)-[bcdfghjklmnpqrstvwxz2456789]{5}\b`)
	set     = regexp.MustCompile(`\bweb-[bcdfghjklmnpqrstvwxz2456789]{8,10}\b`)
	hash    = regexp.MustCompile(`(pod-template-hash|controller-uid)=[-a-z0-9]+`)
	spaces  = regexp.MustCompile(` +`)
)

// run returns what a command says, with what differs each time left out.
func (term terminal) run(t *testing.T, args ...string) string {
	t.Helper()
	out, err := exec.CommandContext(t.Context(), term.program, append([]string{"--kubeconfig", term.kubeconfig, "--cache-dir", term.cache}, args...)...).CombinedOutput()
	require.NoError(t, err, string(out))
	text := random.ReplaceAllString(string(out), "$1-POD")
	text = set.ReplaceAllString(text, "web-SET")
	text = hash.ReplaceAllString(text, "$1=HASH")
	return spaces.ReplaceAllString(passing.ReplaceAllString(text, "AGE"), " ")
}

// TestKubectlOnAPlane has kubectl do what people do with it.
func TestKubectlOnAPlane(t *testing.T) {
	term := open(t)
	ctx, stop := context.WithCancel(t.Context())
	defer stop()
	term.node(t, "wk1")
	term.kubelets(ctx, t)
	file := filepath.Join(t.TempDir(), "web.yaml")
	require.NoError(t, os.WriteFile(file, []byte(manifest+"---"+everything), 0o600))
	said := term.run(t, "apply", "-f", file)
	assert.Contains(t, said, "deployment.apps/web created\n")
	assert.NotContains(t, said, "Warning")
	assert.Contains(t, term.run(t, "rollout", "status", "deployment/web", "--timeout=20s"), `deployment "web" successfully rolled out`)
	assert.Contains(t, term.run(t, "apply", "-f", file), "deployment.apps/web unchanged\n")
	require.Eventually(t, func() bool { return strings.Contains(term.run(t, "get", "ds"), "agent 1 1 1 1 1") }, 10*time.Second, 100*time.Millisecond)

	golden := []string{}
	for _, command := range []string{"get nodes -o wide", "get pods -o wide -l app=web", "get deploy,rs,ds,sts,job,svc -o wide", "get pvc,sc", "get ns", "get cm,secret,sa",
		"get pdb", "get crd", "get endpointslices -o custom-columns=S:.metadata.labels.kubernetes\\.io/service-name,P:.ports[0].port"} {
		golden = append(golden, "$ kubectl "+command+"\n"+term.run(t, strings.Fields(command)...))
	}
	compare(t, "testdata/kubectl.txt", strings.Join(golden, "\n"))

	assert.Contains(t, term.run(t, "logs", "deployment/web"), "log of web-")
	described := term.run(t, "describe", "deployment", "web")
	assert.Contains(t, described, "Scaled up replica set web-SET from 0 to 2")
	assert.Contains(t, term.run(t, "describe", "node", "wk1"), "nvidia.com/gpu: 1")
	assert.Contains(t, term.run(t, "scale", "deployment/web", "--replicas=3"), "scaled")
	assert.Contains(t, term.run(t, "rollout", "restart", "deployment/web"), "restarted")
	assert.Contains(t, term.run(t, "rollout", "status", "deployment/web", "--timeout=20s"), "successfully")
	assert.Contains(t, term.run(t, "rollout", "undo", "deployment/web"), "rolled back")
	assert.Contains(t, term.run(t, "label", "node", "wk1", "pool=gpu"), "labeled")
	assert.Contains(t, term.run(t, "annotate", "node", "wk1", "a=b"), "annotated")
	assert.Contains(t, term.run(t, "create", "namespace", "other"), "created")
	assert.Contains(t, term.run(t, "create", "configmap", "m", "-n", "other", "--from-literal=a=b"), "created")
	assert.Contains(t, term.run(t, "auth", "can-i", "create", "pods"), "yes")
	assert.Contains(t, term.run(t, "delete", "namespace", "other"), "deleted")
	assert.Contains(t, term.run(t, "cordon", "wk1"), "cordoned")
	assert.Contains(t, term.run(t, "get", "nodes"), "Ready,SchedulingDisabled")
	assert.Contains(t, term.run(t, "drain", "wk1", "--ignore-daemonsets", "--force", "--disable-eviction", "--timeout=20s"), "drained")
	assert.Contains(t, term.run(t, "get", "pods", "-l", "app=web"), "Pending")
	assert.Contains(t, term.run(t, "events", "--types=Warning"), "node(s) were unschedulable")
	assert.Contains(t, term.run(t, "delete", "-f", file), `deployment.apps "web" deleted`)
	out, err := exec.CommandContext(t.Context(), term.program, "--kubeconfig", term.kubeconfig, "--cache-dir", term.cache, "top", "nodes").CombinedOutput()
	require.Error(t, err)
	assert.Contains(t, string(out), "Metrics API not available")
}

// TestWatchingATable is kubectl get -w: rows, one for each change.
func TestWatchingATable(t *testing.T) {
	term := open(t)
	ctx, stop := context.WithTimeout(t.Context(), 20*time.Second)
	defer stop()
	maps := term.client.CoreV1().ConfigMaps("default")
	_, err := maps.Create(ctx, &corev1.ConfigMap{ObjectMeta: metav1.ObjectMeta{Name: "m"}}, metav1.CreateOptions{})
	require.NoError(t, err)
	cmd := exec.CommandContext(ctx, term.program, "--kubeconfig", term.kubeconfig, "--cache-dir", term.cache, "get", "cm", "--field-selector=metadata.name=m", "-w", "--output-watch-events")
	cmd.Stderr = t.Output()
	out, err := cmd.StdoutPipe()
	require.NoError(t, err)
	require.NoError(t, cmd.Start())
	read := func(n int) string {
		var all strings.Builder
		buf := make([]byte, 4096)
		for strings.Count(all.String(), "\n") < n {
			m, err := out.Read(buf)
			require.NoError(t, err)
			all.Write(buf[:m])
		}
		return spaces.ReplaceAllString(passing.ReplaceAllString(all.String(), "AGE"), " ")
	}
	assert.Equal(t, "EVENT NAME DATA AGE\nADDED m 0 AGE\n", read(2))
	_, err = maps.Update(ctx, &corev1.ConfigMap{ObjectMeta: metav1.ObjectMeta{Name: "m"}, Data: map[string]string{"a": "b"}}, metav1.UpdateOptions{})
	require.NoError(t, err)
	assert.Equal(t, "MODIFIED m 1 AGE\n", read(1))
	require.NoError(t, maps.Delete(ctx, "m", metav1.DeleteOptions{}))
	assert.Equal(t, "DELETED m 1 AGE\n", read(1))
	stop()
	_ = cmd.Wait()
}

const manifest = `
apiVersion: apps/v1
kind: Deployment
metadata: {name: web, namespace: default}
spec:
  replicas: 2
  selector: {matchLabels: {app: web}}
  template: {metadata: {labels: {app: web}}, spec: {containers: [{name: c, image: "nginx:1"}]}}
`
