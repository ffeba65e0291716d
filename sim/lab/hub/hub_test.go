package hub

import (
	"context"
	"fmt"
	"net"
	"net/http/httptest"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/stretchr/testify/require"
	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/api/resource"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"
	"k8s.io/client-go/kubernetes"
	"k8s.io/client-go/tools/clientcmd"

	"github.com/cps-gpu/homelab/sim/guest"
	"github.com/cps-gpu/homelab/sim/kubesim"
	"github.com/cps-gpu/homelab/sim/lab/traffic"
)

// Secrets that no page may show.
const (
	userPassword  = "users-own-password"
	adminPassword = "admins-own-password-which-is-longer"
	serviceToken  = "token-of-the-verifier"
)

// evil is text that would run if it were not escaped.
const evil = `<img src=x onerror="window.evil=1"><script>window.evil=1</script>`

// values are the chart's, as its Secret has them.
const values = `
hub:
  templateVars: {announcement: "Down on &lt;Friday&gt;<br>8 to 10"}
  config:
    JupyterHub: {authenticator_class: %s}
    Authenticator: {allow_all: %t, admin_users: [teacher], blocked_users: [homelab-verifier], enable_auth_state: true, auth_refresh_age: 15}
    GenericOAuthenticator:
      {client_id: hub, client_secret: hush, oauth_callback_url: "http://hub.lab.example/hub/oauth_callback", authorize_url: "http://login.lab.example/auth", token_url: "http://dex.dex:5556/token",
       userdata_url: "http://dex.dex:5556/userinfo", username_claim: preferred_username, scope: [openid, profile, email, groups, offline_access],
       manage_groups: true, auth_state_groups_key: oauth_user.groups, allowed_groups: [lab], admin_groups: [admins]}
  services: {homelab-verify: {apiToken: ` + serviceToken + `}}
  loadRoles: {homelab-verify: {scopes: ["admin:users", "servers", "access:servers!user=homelab-verifier"], services: [homelab-verify]}}
singleuser:
  image: {name: quay.io/jupyter/base-notebook, tag: "2026-10-05"}
  storage: {type: none}
  profileList:
  - {slug: cpu, display_name: CPU, kubespawner_override: {cpu_limit: 2, cpu_guarantee: 0.5, mem_limit: 4294967296, mem_guarantee: 2147483648}}
  - slug: gpu-2
    display_name: Two
    profile_options:
      image: {display_name: Image, choices: {base: {default: true}, torch: {display_name: PyTorch, kubespawner_override: {image: "torch:1"}}}, unlisted_choice: {enabled: true}}
    description: '%s'
    kubespawner_override: {cpu_limit: 8, mem_limit: 60G, extra_resource_limits: {nvidia.com/gpu: "2"}}
  - slug: ssh
    display_name: SSH
    profile_options: {ssh: {display_name: SSH, choices: {home: {default: true}}, unlisted_choice: {enabled: true, validation_regex: ^ssh-, kubespawner_override: {environment: {HOMELAB_SSH_KEY: "{value}"}}}}}
    kubespawner_override: {volumes: {homelab-ssh: {name: homelab-ssh, configMap: {name: homelab-ssh}}}, volume_mounts: {homelab-ssh: {name: homelab-ssh, mountPath: /etc/homelab/ssh}}}
  - {slug: broken, display_name: Broken, kubespawner_override: {extra_pod_config: {runtimeClassName: nowhere}}}
`

// world is a hub whose pods a control plane schedules and nobody runs, with the hub's pages at url.
type world struct {
	*hub
	url string

	mu  sync.Mutex
	ran [][]string // what was run in pods

	keys string // of authorized_keys in all homes
}

func newWorld(t *testing.T, class string) *world {
	t.Helper()
	ctx, cancel := context.WithCancel(t.Context())
	plane, err := kubesim.NewPlane(ctx, guest.PlaneConfig{TLSSANs: []string{"10.0.0.10"}, Version: "v1.36.5+k3s1"}, kubesim.Backends{})
	require.NoError(t, err)
	config, err := clientcmd.RESTConfigFromKubeConfig(plane.Kubeconfig("https://10.0.0.10:6443"))
	require.NoError(t, err)
	config.Dial = func(ctx context.Context, _, _ string) (net.Conn, error) { return plane.Dial(ctx) }
	config.QPS, config.Burst = 1000, 1000
	client := kubernetes.NewForConfigOrDie(config)
	var all sync.WaitGroup
	t.Cleanup(func() { cancel(); all.Wait(); require.NoError(t, plane.Close()) })

	node := &corev1.Node{ObjectMeta: metav1.ObjectMeta{Name: "wk-gpu-1"}}
	node.Status.Capacity = corev1.ResourceList{"cpu": resource.MustParse("16"), "memory": resource.MustParse("128Gi"), "pods": resource.MustParse("110"), "nvidia.com/gpu": resource.MustParse("2")}
	node.Status.Conditions = []corev1.NodeCondition{{Type: corev1.NodeReady, Status: corev1.ConditionTrue}}
	_, err = client.CoreV1().Nodes().Create(ctx, node, metav1.CreateOptions{})
	require.NoError(t, err)
	_, err = client.CoreV1().Namespaces().Create(ctx, &corev1.Namespace{ObjectMeta: metav1.ObjectMeta{Name: "jupyterhub"}}, metav1.CreateOptions{})
	require.NoError(t, err)
	require.Eventually(t, func() bool {
		_, err := client.CoreV1().ServiceAccounts("jupyterhub").Get(ctx, "default", metav1.GetOptions{})
		return err == nil
	}, 10*time.Second, 10*time.Millisecond, "the namespace's account, which pods need")
	pod := &corev1.Pod{ObjectMeta: metav1.ObjectMeta{Name: "hub", Namespace: "jupyterhub"}}
	for _, s := range []struct {
		volume, name string
		data         map[string][]byte
	}{
		{"secret", "hub", map[string][]byte{"values.yaml": fmt.Appendf(nil, values, class, class != genericOAuth, evil)}},
		{"existing-secret", "hub-homelab", map[string][]byte{"user-password": []byte(userPassword), "admin-password": []byte(adminPassword)}},
	} {
		_, err := client.CoreV1().Secrets("jupyterhub").Create(ctx, &corev1.Secret{ObjectMeta: metav1.ObjectMeta{Name: s.name}, Data: s.data}, metav1.CreateOptions{})
		require.NoError(t, err)
		pod.Spec.Volumes = append(pod.Spec.Volumes, corev1.Volume{Name: s.volume, VolumeSource: corev1.VolumeSource{Secret: &corev1.SecretVolumeSource{SecretName: s.name}}})
	}
	all.Go(func() { kubelet(ctx, client) })

	w := &world{}
	w.hub, err = start(ctx, Options{Pod: pod, Client: client, Traffic: traffic.NewTraffic(ctx, client, nil), Exec: w.exec, Go: all.Go})
	require.NoError(t, err)
	server := httptest.NewServer(w.handler())
	t.Cleanup(server.Close)
	w.url = server.URL
	return w
}

// exec stands for the guest that runs a pod.
func (w *world) exec(_ context.Context, pod *corev1.Pod, args []string) (int, string, error) {
	w.mu.Lock()
	defer w.mu.Unlock()
	w.ran = append(w.ran, args)
	var out strings.Builder
	code := 0
	for command := range strings.Lines(args[len(args)-1]) {
		if _, text, adds := strings.Cut(command, "echo '"); adds {
			key, _, _ := strings.Cut(text, "'")
			w.keys += key + "\n"
			continue
		}
		if strings.HasSuffix(command, "/.ssh/authorized_keys") {
			out.WriteString(w.keys)
		}
		switch command = strings.TrimSpace(command); command {
		case "nvidia-smi -L":
			for n := range pod.Spec.Containers[0].Resources.Limits.Name("nvidia.com/gpu", resource.DecimalSI).Value() {
				fmt.Fprintf(&out, "GPU %d: NVIDIA A100-SXM4-80GB\n", n)
			}
		case "hostname":
			fmt.Fprintln(&out, pod.Name)
		case "cat evil":
			fmt.Fprintln(&out, evil)
		case "false":
			code = 1
		}
	}
	return code, out.String(), nil
}

// commands is how many times something was run.
func (w *world) commands() int {
	w.mu.Lock()
	defer w.mu.Unlock()
	return len(w.ran)
}

// kubelet starts every pod that is bound, and ends every one that is deleted.
func kubelet(ctx context.Context, client kubernetes.Interface) {
	pods := client.CoreV1().Pods("jupyterhub")
	for ctx.Err() == nil {
		list, err := pods.List(ctx, metav1.ListOptions{})
		if err != nil {
			continue
		}
		for n := range list.Items {
			switch pod := &list.Items[n]; {
			case pod.DeletionTimestamp != nil:
				_ = pods.Delete(ctx, pod.Name, metav1.DeleteOptions{GracePeriodSeconds: new(int64)})
			case pod.Spec.NodeName != "" && pod.Status.Phase == corev1.PodPending:
				patch := fmt.Sprintf(`{"metadata":{"uid":%q},"status":{"phase":"Running","podIP":"10.42.0.9","conditions":[{"type":"Ready","status":"True"}]}}`, pod.UID)
				_, _ = pods.Patch(ctx, pod.Name, types.StrategicMergePatchType, []byte(patch), metav1.PatchOptions{}, "status")
			}
		}
		select {
		case <-ctx.Done():
		case <-time.After(50 * time.Millisecond):
		}
	}
}
