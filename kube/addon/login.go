package addon

import (
	"cmp"
	"context"
	"crypto/sha256"
	"fmt"
	"maps"
	"net"
	"net/url"
	"slices"

	appsv1 "k8s.io/api/apps/v1"
	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/apimachinery/pkg/util/intstr"

	"github.com/cps-gpu/homelab/cluster/spec"
	"github.com/cps-gpu/homelab/internal/oidc"
	"github.com/cps-gpu/homelab/internal/printable"
	"github.com/cps-gpu/homelab/kube/chart"
	"github.com/cps-gpu/homelab/kube/verify"
	"github.com/cps-gpu/homelab/secret"
)

// LoginName is the part, its namespace, and what it calls its objects.
const LoginName = "dex"

const (
	// dexImage has groups of its own people since 2.45. 2.46 adds sessions of its own, with which it no longer asks
	// the sources at a refresh (server/grants/refresh.go): who leaves would stay in until the session ends.
	dexImage = "ghcr.io/dexidp/dex:v2.45.1@sha256:8499afd690c437f52301efd2b05b2455da5bd2dfc20332cd697dc9937f808462"

	dexPort, dexHealth = 5556, 5558

	dexConfig  = "dex-config"  // its whole configuration, with the secrets of sources
	dexClients = "dex-clients" // secrets that programs prove themselves with to Dex, generated once
	dexTLS     = "dex-tls"
)

// Login is Dex.
type Login struct {
	*spec.Login
	Platform *spec.Platform // which parts people sign in to by it
}

func (l Login) Info() Info {
	return Info{Name: LoginName, Section: "login", On: l.Login != nil && l.Provider == nil, Namespace: LoginName,
		NeverInFleet: "a change of its people has to reach it at once"}
}

func (l Login) Make(s *Site) (Recipe, error) {
	config, err := l.config(s)
	if err != nil {
		return Recipe{}, err
	}
	p := Recipe{
		Web: &Web{Title: "sign-in", URL: l.Platform.Issuer().URL, Checked: true}, Replaces: []string{ProviderName},
		Verify: []verify.Check{{Name: "programs find it and its keys", Try: l.answers}},
		Part: chart.Part{Name: LoginName, Before: append(l.objects(s), loginRoles(l.Login, LoginName, "homelab-login")...), Secrets: []chart.Secret{
			{Namespace: LoginName, Name: dexConfig, Data: map[string]secret.Value{"config.yaml": config}},
			{Namespace: LoginName, Name: dexClients, Generate: map[string]int{}},
		}},
	}
	for _, c := range loginClients(l.Platform, s) {
		p.Secrets[1].Generate[c.id] = 32
	}
	s.requireParts(&p, "issuer", "ingress")
	p.Late = s.copiedCertificate(p.Part, LoginName, dexTLS)
	return p, nil
}

// answers asks Dex as the programs do.
func (l Login) answers(ctx context.Context, c verify.Cluster) (string, error) {
	return findPublished(ctx, c, l.Platform.Issuer().URL)
}

// findPublished looks for what programs read of an issuer: its own description, and the keys of its tokens.
func findPublished(ctx context.Context, c verify.Cluster, issuer string) (string, error) {
	var page verify.Page
	its, err := oidc.Read(issuer, func(address string, out any) (err error) {
		page, err = c.OpenJSON(ctx, address, out)
		return err
	})
	if err != nil {
		return "", err
	}
	var list struct {
		Keys []struct {
			Use string `json:"use"`
		} `json:"keys"`
	}
	if _, err := c.OpenJSON(ctx, its.Keys, &list); err != nil {
		return "", err
	}
	if len(list.Keys) == 0 {
		return "", fmt.Errorf("%s has no keys: nobody can check its tokens", its.Keys)
	}
	return page.WithCertificate(printable.Count(len(list.Keys), "key")), nil
}

// objects are all but the Secrets. Dex keeps sign-ins as objects of kinds that it adds itself.
func (l Login) objects(s *Site) []runtime.Object {
	named := func(namespace string) metav1.ObjectMeta { return meta(LoginName, namespace, LoginName) }
	const rbac = "rbac.authorization.k8s.io"
	rules := func(kind, namespace, group, resources string, verbs ...any) runtime.Object {
		o := object(rbac+"/v1", kind, named(namespace), nil)
		o.Object["rules"] = []any{values{"apiGroups": []any{group}, "resources": []any{resources}, "verbs": verbs}}
		return o
	}
	bound := func(kind, namespace string) runtime.Object {
		o := object(rbac+"/v1", kind+"Binding", named(namespace), nil)
		o.Object["roleRef"] = values{"apiGroup": rbac, "kind": kind, "name": LoginName}
		o.Object["subjects"] = []any{values{"kind": "ServiceAccount", "namespace": LoginName, "name": LoginName}}
		return o
	}
	return append([]runtime.Object{
		namespaceObject(LoginName, ownLabels(LoginName)),
		&corev1.ServiceAccount{TypeMeta: metav1.TypeMeta{APIVersion: "v1", Kind: "ServiceAccount"}, ObjectMeta: named(LoginName)},
		rules("Role", LoginName, "dex.coreos.com", "*", "*"), bound("Role", LoginName),
		rules("ClusterRole", "", "apiextensions.k8s.io", "customresourcedefinitions", "list", "create"), bound("ClusterRole", ""),
		l.deployment(s),
		&corev1.Service{TypeMeta: metav1.TypeMeta{APIVersion: "v1", Kind: "Service"}, ObjectMeta: named(LoginName),
			Spec: corev1.ServiceSpec{Selector: ownLabels(LoginName), Ports: []corev1.ServicePort{{
				Name: "http", Protocol: corev1.ProtocolTCP, Port: dexPort, TargetPort: intstr.FromString("http")}}}},
	}, s.page(named(LoginName), l.Hostname, dexPort, dexTLS)...)
}

// loginRoles give groups rights in Kubernetes. Names of objects begin with prefix.
func loginRoles(l *spec.Login, part, prefix string) []runtime.Object {
	var out []runtime.Object
	for _, group := range slices.Sorted(maps.Keys(l.ClusterRoles)) {
		// The name of an object takes less than that of a group. A binding cannot change its role.
		sum := sha256.Sum256([]byte(l.ClusterRoles[group] + "/" + group))
		o := object("rbac.authorization.k8s.io/v1", "ClusterRoleBinding", meta(part, "", fmt.Sprintf("%s-%x", prefix, sum[:6])), nil)
		o.Object["roleRef"] = values{"apiGroup": "rbac.authorization.k8s.io", "kind": "ClusterRole", "name": l.ClusterRoles[group]}
		o.Object["subjects"] = []any{values{"apiGroup": "rbac.authorization.k8s.io", "kind": "Group", "name": spec.LoginPrefix + group}}
		out = append(out, o)
	}
	return out
}

func (l Login) deployment(s *Site) *appsv1.Deployment {
	replicas := int32(s.replicas(2))
	return &appsv1.Deployment{
		TypeMeta: metav1.TypeMeta{APIVersion: "apps/v1", Kind: "Deployment"}, ObjectMeta: meta(LoginName, LoginName, LoginName),
		Spec: appsv1.DeploymentSpec{
			Replicas: &replicas, Selector: &metav1.LabelSelector{MatchLabels: ownLabels(LoginName)},
			Template: corev1.PodTemplateSpec{ObjectMeta: metav1.ObjectMeta{Labels: ownLabels(LoginName)}, Spec: l.pod(s)},
		},
	}
}

func (l Login) pod(s *Site) corev1.PodSpec {
	yes := true
	healthy := func(path string) *corev1.Probe {
		return &corev1.Probe{ProbeHandler: corev1.ProbeHandler{HTTPGet: &corev1.HTTPGetAction{Path: path, Port: intstr.FromInt32(dexHealth)}}}
	}
	c := corev1.Container{
		// Without the image's entry point, which takes the configuration for a template.
		Name: LoginName, Image: dexImage, Command: []string{"dex", "serve", "/etc/dex/config.yaml"},
		Env:           []corev1.EnvVar{{Name: "DEX_EXPAND_ENV", Value: "false"}}, // a $ in a password is a $
		Ports:         []corev1.ContainerPort{{Name: "http", ContainerPort: dexPort, Protocol: corev1.ProtocolTCP}},
		VolumeMounts:  []corev1.VolumeMount{{Name: "config", MountPath: "/etc/dex", ReadOnly: true}},
		LivenessProbe: healthy("/healthz/live"), ReadinessProbe: healthy("/healthz/ready"),
		SecurityContext: noCapabilities(),
	}
	c.SecurityContext.RunAsNonRoot, c.SecurityContext.ReadOnlyRootFilesystem = &yes, &yes
	user := int64(1001)
	c.SecurityContext.RunAsUser = &user
	for _, its := range loginClients(l.Platform, s) {
		c.Env = append(c.Env, secretVariable(its.variable(), dexClients, its.id))
	}
	return corev1.PodSpec{
		ServiceAccountName: LoginName, Tolerations: Tolerations(s.Taints()), Containers: []corev1.Container{c},
		Volumes: []corev1.Volume{{Name: "config", VolumeSource: corev1.VolumeSource{Secret: &corev1.SecretVolumeSource{SecretName: dexConfig}}}},
		TopologySpreadConstraints: []corev1.TopologySpreadConstraint{{MaxSkew: 1, TopologyKey: corev1.LabelHostname,
			WhenUnsatisfiable: corev1.ScheduleAnyway, LabelSelector: &metav1.LabelSelector{MatchLabels: ownLabels(LoginName)}}},
	}
}

// ldapHost is a directory's host with its port.
func ldapHost(server string) (host string, startTLS bool, err error) {
	u, err := url.Parse(server)
	if err != nil || u.Hostname() == "" {
		return "", false, fmt.Errorf("login.ldap.server: %q is not ldaps://host", server)
	}
	port := map[string]string{"ldap": "389", "ldaps": "636"}[u.Scheme]
	return net.JoinHostPort(u.Hostname(), cmp.Or(u.Port(), port)), u.Scheme == "ldap", nil
}
