package jupyterhub

import (
	"fmt"
	"time"

	"github.com/goccy/go-yaml"
	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/api/resource"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime"

	"github.com/cps-gpu/homelab/cluster/spec"
	"github.com/cps-gpu/homelab/kube"
	"github.com/cps-gpu/homelab/kube/chart"
	"github.com/cps-gpu/homelab/nvidia"
	"github.com/cps-gpu/homelab/secret"
)

// secretName is the Secret that the chart reads in addition to its own, which is called hub.
const secretName = "hub-homelab"

// Keys of that Secret. Their names are the chart's (z2jh 4.4 files/hub/z2jh.py,
// get_secret_value), except those of passwords.
const (
	keyValues    = "values.yaml" // merged over the chart's values, in the hub only
	keyCookie    = "hub.config.JupyterHub.cookie_secret"
	keyCrypt     = "hub.config.CryptKeeper.keys"
	keyDatabase  = "hub.db.password"
	keyUser      = "user-password"
	keyAdmin     = "admin-password"
	keyToken     = "hub.services." + verifyService + ".apiToken"
	keyCullToken = "hub.services." + cullService + ".apiToken"
)

// pullTimeout is how long the release may take when nodes pull images meanwhile: an
// image with CUDA and PyTorch has 10 to 20 GB.
const pullTimeout = time.Hour

// Pin returns the chart that is installed.
func Pin() chart.Pin {
	return chart.Pin{
		Chart: "jupyterhub", Repo: "https://hub.jupyter.org/helm-chart/",
		Version: "4.4.2", App: "5.5.0", Kubernetes: ">=1.28.0-0", Compared: "2026-11-20",
		Source:  "pinned: image references of autumn 2026; read: 4.4.0 of 2026-06-10, Chart.yaml (its appVersion too)",
		Advised: "4.4.0", Reason: "has known security holes, closed in 4.3.3, 4.3.4 and 4.4.0", // z2jh's changelog
	}
}

// installation is a hub as its release, its Secret and its objects.
type installation struct{ Hub }

// release returns the hub as a release of z2jh's chart.
func (h installation) release() (chart.Release, error) {
	values, err := h.Values()
	if err != nil {
		return chart.Release{}, err
	}
	r := *Pin().Release(defaultName, h.namespace(), h.Version, chart.Merge(values, h.ChartValues))
	if h.PrePull {
		r.Timeout = pullTimeout
	}
	return r, nil
}

// Part returns the release with its Secret and objects. The caller sets Needs, because it
// knows which parts provide the classes, certificates and shares.
func (h Hub) Part() (chart.Part, error) {
	its := installation{h}
	release, err := its.release()
	if err != nil {
		return chart.Part{}, err
	}
	hidden, err := its.secret()
	if err != nil {
		return chart.Part{}, err
	}
	return chart.Part{
		Name:    defaultName,
		Release: &release,
		Secrets: append([]chart.Secret{hidden}, h.Models.secrets(h.namespace())...),
		Before:  its.objects(),
		Keep:    true,
	}, nil
}

// secret has all secrets of the hub.
func (h installation) secret() (chart.Secret, error) {
	s := chart.Secret{
		Namespace: h.namespace(), Name: secretName,
		Labels: map[string]string{"app.kubernetes.io/part-of": defaultName},
		Data:   map[string]secret.Value{},
		// In bytes. The hub needs 32 for cookies and for the key of authenticators' state,
		// both written as hex.
		Generate: map[string]int{keyCookie: 32, keyCrypt: 32, keyToken: 32},
	}
	if h.ownCuller() {
		s.Generate[keyCullToken] = 32
	}
	if config := login(h).secretConfig(); config != nil {
		text, err := yaml.Marshal(map[string]any{"hub": map[string]any{"config": config}})
		if err != nil {
			return s, fmt.Errorf("%s: %w", keyValues, err)
		}
		s.Data[keyValues] = secret.New(string(text))
	}
	if h.Auth.Kind == spec.AuthDummy {
		s.Generate[keyAdmin] = 16 // the hub requires at least 32 characters
		if h.Secrets.Password.IsZero() {
			s.Generate[keyUser] = 8
		} else {
			s.Data[keyUser] = h.Secrets.Password
		}
	}
	if h.Database.Kind == Postgres && h.Database.Name == "" {
		_, password, err := splitDatabase(h.Secrets.Database)
		if err != nil {
			return s, err
		}
		if !password.IsZero() {
			s.Data[keyDatabase] = password
		}
	}
	return s, nil
}

// GeneratedSecret is a secret that a person needs to read, and where it is.
type GeneratedSecret struct {
	Title                string
	Namespace, Name, Key string // of the Secret
}

// GeneratedSecrets names the generated secrets that people need.
func (h Hub) GeneratedSecrets() []GeneratedSecret {
	if h.Auth.Kind != spec.AuthDummy {
		return nil
	}
	return []GeneratedSecret{
		{Title: "password of every user of the hub", Namespace: h.namespace(), Name: secretName, Key: keyUser},
		{Title: "password of the hub's admins", Namespace: h.namespace(), Name: secretName, Key: keyAdmin},
	}
}

// TokenSecret says where the token of verifyService is.
func (h Hub) TokenSecret() GeneratedSecret {
	return GeneratedSecret{Title: "token that verifies the hub", Namespace: h.namespace(), Name: secretName, Key: keyToken}
}

// objects are those that the chart does not create.
func (h installation) objects() []runtime.Object {
	var all []runtime.Object
	for _, s := range h.Shared {
		of := h.Exports[s.Name]
		all = append(all, kube.Share{Claim: h.meta(claimOf(s)), Volume: h.namespace() + "-" + claimOf(s), Server: of.Server, Path: of.Export, MountOptions: of.MountOptions}.Objects()...)
	}
	if bundle := h.bundle(); len(bundle) > 0 {
		all = append(all, &corev1.ConfigMap{
			TypeMeta:   metav1.TypeMeta{APIVersion: "v1", Kind: "ConfigMap"},
			ObjectMeta: h.meta(caConfigMap),
			Data:       map[string]string{"ca.crt": string(bundle), "bundle.sh": bundleScript},
		})
	}
	if h.SSH {
		all = append(all, h.sshObjects())
	}
	return append(all, h.quota()...)
}

func (h installation) meta(name string) metav1.ObjectMeta {
	return metav1.ObjectMeta{Name: name, Namespace: h.namespace(), Labels: map[string]string{"app.kubernetes.io/part-of": defaultName}}
}

// quota limits the namespace. Kubernetes then refuses pods without requests for what is
// limited, such as the chart's own, so it comes with defaults.
func (h installation) quota() []runtime.Object {
	hard := corev1.ResourceList{}
	if h.Quota.GPUs > 0 {
		hard[corev1.ResourceName("requests."+nvidia.Resource)] = *resource.NewQuantity(int64(h.Quota.GPUs), resource.DecimalSI)
	}
	defaults := corev1.ResourceList{}
	if h.Quota.CPU > 0 {
		hard[corev1.ResourceRequestsCPU] = *resource.NewMilliQuantity(int64(h.Quota.CPU*1000)+coreCPU, resource.DecimalSI)
		defaults[corev1.ResourceCPU] = *resource.NewMilliQuantity(podCPU, resource.DecimalSI)
	}
	if h.Quota.Memory > 0 {
		hard[corev1.ResourceRequestsMemory] = *resource.NewQuantity(int64(Bytes(h.Quota.Memory)+coreMemory), resource.BinarySI)
		defaults[corev1.ResourceMemory] = *resource.NewQuantity(int64(podMemory), resource.BinarySI)
	}
	if len(hard) == 0 {
		return nil
	}
	all := []runtime.Object{&corev1.ResourceQuota{
		TypeMeta:   metav1.TypeMeta{APIVersion: "v1", Kind: "ResourceQuota"},
		ObjectMeta: h.meta("notebooks"),
		Spec:       corev1.ResourceQuotaSpec{Hard: hard},
	}}
	if len(defaults) > 0 {
		all = append(all, &corev1.LimitRange{
			TypeMeta:   metav1.TypeMeta{APIVersion: "v1", Kind: "LimitRange"},
			ObjectMeta: h.meta("defaults"),
			Spec:       corev1.LimitRangeSpec{Limits: []corev1.LimitRangeItem{{Type: corev1.LimitTypeContainer, DefaultRequest: defaults}}},
		})
	}
	return all
}

// What a container of the chart's own pods gets if there is a quota, and how much the quota is
// increased for them: hub, proxy, and a puller of images on each node.
const (
	podCPU     = 20 // thousandths of a core
	podMemory  = 64 * MiB
	coreCPU    = 1000
	coreMemory = 4 * GiB
)
