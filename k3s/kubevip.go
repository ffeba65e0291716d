package k3s

import (
	"bytes"
	"errors"
	"fmt"
	"net/netip"
	"strconv"
	"time"

	appsv1 "k8s.io/api/apps/v1"
	corev1 "k8s.io/api/core/v1"
	rbacv1 "k8s.io/api/rbac/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime"
	"sigs.k8s.io/yaml"
)

// KubeVIPVersion is the kube-vip that [KubeVIP] runs where nothing else is said.
const KubeVIPVersion = "v1.2.4"

// KubeVIPManifest is the file name under which [KubeVIP]'s manifest belongs into
// [Server.Manifests] of the first server.
const KubeVIPManifest = "kube-vip.yaml"

const kubeVIP = "kube-vip"

// VIP is an address that is always that of a living server: kube-vip answers ARP
// for it on whichever holds a lease. Every server's TLSSANs must have it.
type VIP struct {
	Address   netip.Addr
	Interface string // that carries the address; empty: the one of the default route
	Version   string // of kube-vip; default [KubeVIPVersion]
	Image     string // without tag; default ghcr.io/kube-vip/kube-vip
	Services  bool   // also give addresses to Services of type LoadBalancer; then disable servicelb

	// How long a dead holder keeps the address, and what follows from it.
	// Default 15 s, 10 s and 2 s; each must be shorter than the one before.
	LeaseDuration, RenewDeadline, RetryPeriod time.Duration
}

// KubeVIP returns the manifest that runs kube-vip on every server: a DaemonSet and
// what it may do.
func KubeVIP(v VIP) ([]byte, error) {
	if !v.Address.IsValid() || v.Address.IsUnspecified() {
		return nil, errors.New("kube-vip: the address is not set")
	}
	lease := []time.Duration{v.LeaseDuration, v.RenewDeadline, v.RetryPeriod}
	for i, d := range []time.Duration{15 * time.Second, 10 * time.Second, 2 * time.Second} {
		if lease[i] == 0 {
			lease[i] = d
		}
	}
	if lease[0] <= lease[1] || lease[1] <= lease[2] || lease[2] < time.Second {
		return nil, fmt.Errorf("kube-vip: lease %s, renew %s, retry %s: each must be shorter than the one before, and at least 1s", lease[0], lease[1], lease[2])
	}
	meta := metav1.ObjectMeta{Name: kubeVIP, Namespace: metav1.NamespaceSystem}
	objects := []runtime.Object{
		&corev1.ServiceAccount{TypeMeta: metav1.TypeMeta{APIVersion: "v1", Kind: "ServiceAccount"}, ObjectMeta: meta},
		kubeVIPRole(),
		kubeVIPBinding(),
		v.daemonSet(lease),
	}
	return manifest(objects)
}

func kubeVIPRole() *rbacv1.ClusterRole {
	rule := func(group string, resources, verbs []string) rbacv1.PolicyRule {
		return rbacv1.PolicyRule{APIGroups: []string{group}, Resources: resources, Verbs: verbs}
	}
	read := []string{"list", "get", "watch"}
	return &rbacv1.ClusterRole{
		TypeMeta:   metav1.TypeMeta{APIVersion: "rbac.authorization.k8s.io/v1", Kind: "ClusterRole"},
		ObjectMeta: metav1.ObjectMeta{Name: "system:kube-vip-role"},
		Rules: []rbacv1.PolicyRule{
			rule("", []string{"services/status"}, []string{"update"}),
			rule("", []string{"services", "endpoints"}, append(read[:3:3], "update")),
			rule("", []string{"nodes"}, append(read[:3:3], "update", "patch")),
			rule("coordination.k8s.io", []string{"leases"}, append(read[:3:3], "update", "create")),
			rule("discovery.k8s.io", []string{"endpointslices"}, append(read[:3:3], "update")),
			rule("", []string{"pods"}, []string{"list"}),
			rule("networking.k8s.io", []string{"servicecidrs"}, read),
		},
	}
}

func kubeVIPBinding() *rbacv1.ClusterRoleBinding {
	return &rbacv1.ClusterRoleBinding{
		TypeMeta:   metav1.TypeMeta{APIVersion: "rbac.authorization.k8s.io/v1", Kind: "ClusterRoleBinding"},
		ObjectMeta: metav1.ObjectMeta{Name: "system:kube-vip-binding"},
		RoleRef:    rbacv1.RoleRef{APIGroup: "rbac.authorization.k8s.io", Kind: "ClusterRole", Name: "system:kube-vip-role"},
		Subjects:   []rbacv1.Subject{{Kind: "ServiceAccount", Name: kubeVIP, Namespace: metav1.NamespaceSystem}},
	}
}

func (v VIP) daemonSet(lease []time.Duration) *appsv1.DaemonSet {
	labels := map[string]string{"app.kubernetes.io/name": "kube-vip-ds"}
	return &appsv1.DaemonSet{
		TypeMeta:   metav1.TypeMeta{APIVersion: "apps/v1", Kind: "DaemonSet"},
		ObjectMeta: metav1.ObjectMeta{Name: "kube-vip-ds", Namespace: metav1.NamespaceSystem, Labels: labels},
		Spec: appsv1.DaemonSetSpec{
			Selector: &metav1.LabelSelector{MatchLabels: labels},
			Template: corev1.PodTemplateSpec{
				ObjectMeta: metav1.ObjectMeta{Labels: labels},
				Spec: corev1.PodSpec{
					Affinity:           &corev1.Affinity{NodeAffinity: onServers()},
					Containers:         []corev1.Container{v.container(lease)},
					HostNetwork:        true,
					ServiceAccountName: kubeVIP,
					// The address is needed most when nodes are in trouble.
					Tolerations: []corev1.Toleration{
						{Effect: corev1.TaintEffectNoSchedule, Operator: corev1.TolerationOpExists},
						{Effect: corev1.TaintEffectNoExecute, Operator: corev1.TolerationOpExists},
					},
				},
			},
		},
	}
}

func onServers() *corev1.NodeAffinity {
	return &corev1.NodeAffinity{RequiredDuringSchedulingIgnoredDuringExecution: &corev1.NodeSelector{
		NodeSelectorTerms: []corev1.NodeSelectorTerm{{MatchExpressions: []corev1.NodeSelectorRequirement{
			{Key: "node-role.kubernetes.io/control-plane", Operator: corev1.NodeSelectorOpExists},
		}}},
	}}
}

func (v VIP) container(lease []time.Duration) corev1.Container {
	image, version := v.Image, v.Version
	if image == "" {
		image = "ghcr.io/kube-vip/kube-vip"
	}
	if version == "" {
		version = KubeVIPVersion
	}
	env := func(name, value string) corev1.EnvVar { return corev1.EnvVar{Name: name, Value: value} }
	seconds := func(d time.Duration) string { return strconv.Itoa(int(d / time.Second)) }
	vars := []corev1.EnvVar{
		env("vip_arp", "true"),
		env("port", "6443"),
		{Name: "vip_nodename", ValueFrom: &corev1.EnvVarSource{FieldRef: &corev1.ObjectFieldSelector{FieldPath: "spec.nodeName"}}},
		env("vip_subnet", strconv.Itoa(v.Address.BitLen())),
		env("cp_enable", "true"),
		env("cp_namespace", metav1.NamespaceSystem),
		env("svc_enable", strconv.FormatBool(v.Services)),
		env("svc_leasename", "plndr-svcs-lock"),
		env("vip_leaderelection", "true"),
		env("vip_leasename", "plndr-cp-lock"),
		env("vip_leaseduration", seconds(lease[0])),
		env("vip_renewdeadline", seconds(lease[1])),
		env("vip_retryperiod", seconds(lease[2])),
		env("address", v.Address.String()),
		env("prometheus_server", ":2112"),
	}
	if v.Interface != "" {
		vars = append(vars, env("vip_interface", v.Interface))
	}
	return corev1.Container{
		Name: kubeVIP, Image: image + ":" + version, ImagePullPolicy: corev1.PullIfNotPresent,
		Args: []string{"manager"}, Env: vars,
		SecurityContext: &corev1.SecurityContext{Capabilities: &corev1.Capabilities{
			Add: []corev1.Capability{"NET_ADMIN", "NET_RAW"}, Drop: []corev1.Capability{"ALL"},
		}},
	}
}

// manifest writes objects as YAML documents, without the empty status that typed
// objects drag along.
func manifest(objects []runtime.Object) ([]byte, error) {
	var out bytes.Buffer
	out.WriteString(configHead)
	for _, o := range objects {
		m, err := runtime.DefaultUnstructuredConverter.ToUnstructured(o)
		if err != nil {
			return nil, fmt.Errorf("manifest: %w", err)
		}
		delete(m, "status")
		b, err := yaml.Marshal(m)
		if err != nil {
			return nil, fmt.Errorf("manifest: %w", err)
		}
		out.WriteString("---\n")
		out.Write(b)
	}
	return out.Bytes(), nil
}
