package operators_test

import (
	"context"
	"errors"
	"fmt"
	"net"
	"net/http"
	"testing"
	"time"

	"github.com/openai/openai-go/v3"
	"github.com/openai/openai-go/v3/option"
	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"
	appsv1 "k8s.io/api/apps/v1"
	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/apimachinery/pkg/util/intstr"

	"github.com/cps-gpu/homelab/cluster/spec"
	"github.com/cps-gpu/homelab/internal/modelserver"
	"github.com/cps-gpu/homelab/kube/addon"
	"github.com/cps-gpu/homelab/kube/chart"
	"github.com/cps-gpu/homelab/kube/verify"
	"github.com/cps-gpu/homelab/secret"
)

// plainModel is a model's server without a card.
func plainModel(name string) []runtime.Object {
	labels := map[string]string{"app.kubernetes.io/name": name}
	meta := metav1.ObjectMeta{Name: name, Namespace: modelserver.Namespace}
	return []runtime.Object{
		&appsv1.Deployment{TypeMeta: metav1.TypeMeta{APIVersion: "apps/v1", Kind: "Deployment"}, ObjectMeta: meta, Spec: appsv1.DeploymentSpec{
			Selector: &metav1.LabelSelector{MatchLabels: labels}, Template: corev1.PodTemplateSpec{ObjectMeta: metav1.ObjectMeta{Labels: labels}, Spec: corev1.PodSpec{
				Containers: []corev1.Container{{Name: "server", Image: "ghcr.io/ggml-org/llama.cpp:server", Args: []string{"--hf-repo", "a/" + name, "--alias", name},
					Ports: []corev1.ContainerPort{{Name: modelserver.PortName, ContainerPort: modelserver.PortNumber}},
					Env: []corev1.EnvVar{{Name: "LLAMA_API_KEY", ValueFrom: &corev1.EnvVarSource{SecretKeyRef: &corev1.SecretKeySelector{
						LocalObjectReference: corev1.LocalObjectReference{Name: modelserver.EngineSecret}, Key: modelserver.EngineKey}}}}}}}}}},
		&corev1.Service{TypeMeta: metav1.TypeMeta{APIVersion: "v1", Kind: "Service"}, ObjectMeta: meta, Spec: corev1.ServiceSpec{Selector: labels,
			Ports: []corev1.ServicePort{{Name: modelserver.PortName, Port: modelserver.PortNumber, TargetPort: intstr.FromString(modelserver.PortName)}}}},
	}
}

// TestModelGateway: OpenAI's own client reaches models by their gateway's name with a key of it, and without one
// neither there nor at the engine. Keys outlive a pod of the gateway.
func TestModelGateway(t *testing.T) {
	s := newSite(t)
	s.part(t, addon.Postgres{Gateway: true})
	s.install(t, chart.Part{Name: "models", Before: []runtime.Object{&corev1.Namespace{TypeMeta: metav1.TypeMeta{APIVersion: "v1", Kind: "Namespace"}, ObjectMeta: metav1.ObjectMeta{Name: modelserver.Namespace}}}}, nil)
	s.install(t, chart.Part{Name: "engines", Before: append(plainModel("mini"), plainModel("other")...),
		Secrets: []chart.Secret{{Namespace: modelserver.Namespace, Name: modelserver.EngineSecret, Generate: map[string]int{modelserver.EngineKey: 16}}}}, nil)
	part := addon.ModelGateway{ModelGateway: &spec.ModelGateway{Hostname: "models.lab.example", Size: spec.GiB}, Models: []spec.Model{{Name: "mini"}, {Name: "other"}}}
	recipe, err := part.Make(&addon.Site{Ingress: spec.Ingress{Kind: spec.IngressTraefik, Class: "traefik"}})
	require.NoError(t, err)
	s.install(t, recipe.Part, nil)

	var gateway *modelserver.Gateway
	answers := func(ctx context.Context) error {
		if gateway, err = modelserver.FindGateway(ctx, s.kube); err != nil || gateway == nil {
			return errors.Join(err, errors.New("no gateway"))
		}
		_, err = gateway.Keys(ctx)
		return err
	}
	eventually(t, 30*time.Second, "the gateway answers", answers)
	part.ModelGateway = &spec.ModelGateway{Size: spec.GiB}
	hidden, err := part.Make(&addon.Site{})
	require.NoError(t, err)
	_, err = hidden.Verify[0].Try(t.Context(), verify.Cluster{Kube: s.kube})
	require.NoError(t, err, "without a hostname it is asked for by its Service")
	require.NoError(t, gateway.Add(t.Context(), "alice", secret.New("sk-alice"), modelserver.Limits{Models: []string{"mini"}}))
	client := func(key string) openai.Client {
		transport := &http.Transport{DialContext: func(context.Context, string, string) (net.Conn, error) {
			conn, ok := s.factory.Reach("10.0.0.11:80") // K3s' own load balancer: a node's address
			if !ok {
				return nil, errors.New("no load balancer gave 10.0.0.11 to anybody")
			}
			return conn, nil
		}, DisableKeepAlives: true}
		return openai.NewClient(option.WithBaseURL("http://models.lab.example/v1/"), option.WithHTTPClient(&http.Client{Transport: transport}), option.WithAPIKey(key), option.WithMaxRetries(0))
	}
	ask := func(key, model string) (string, error) {
		c := client(key)
		answer, err := c.Chat.Completions.New(t.Context(), openai.ChatCompletionNewParams{Model: model, Messages: []openai.ChatCompletionMessageParamUnion{openai.UserMessage("Hello?")}})
		if err != nil {
			return "", err
		}
		return answer.Choices[0].Message.Content, nil
	}
	eventually(t, 20*time.Second, "a model answers", func(context.Context) error {
		text, err := ask("sk-alice", "mini")
		if err == nil {
			assert.Contains(t, text, "This is the lab: no model was loaded")
		}
		return err
	})
	c := client("sk-alice")
	list, err := c.Models.List(t.Context())
	require.NoError(t, err)
	require.Len(t, list.Data, 1)
	assert.Equal(t, "mini", list.Data[0].ID)
	var refused *openai.Error
	_, err = ask("sk-alice", "other")
	require.ErrorAs(t, err, &refused)
	assert.Equal(t, "key_model_access_denied", refused.Type)
	_, err = ask("sk-nobody", "mini")
	require.ErrorAs(t, err, &refused)
	assert.Equal(t, http.StatusUnauthorized, refused.StatusCode)
	_, err = modelserver.Server{Name: "mini", State: modelserver.Ready}.Verify(t.Context(), s.kube, nil)
	require.ErrorContains(t, err, "Invalid API Key", "the engine itself")
	_, err = modelserver.Server{Name: "mini", State: modelserver.Ready}.Verify(t.Context(), s.kube, gateway)
	require.NoError(t, err)

	pods, its := s.core.CoreV1().Pods(modelserver.Namespace), metav1.ListOptions{LabelSelector: "app.kubernetes.io/name=gateway"}
	old, err := pods.List(t.Context(), its)
	require.NoError(t, err)
	require.Len(t, old.Items, 1)
	require.NoError(t, pods.Delete(t.Context(), old.Items[0].Name, metav1.DeleteOptions{}))
	var keys []modelserver.Key
	eventually(t, 30*time.Second, "another pod of the gateway", func(ctx context.Context) error {
		now, err := pods.List(ctx, its)
		if err != nil {
			return err
		}
		if len(now.Items) != 1 || now.Items[0].Name == old.Items[0].Name {
			return fmt.Errorf("%d pods, or the old one", len(now.Items))
		}
		keys, err = gateway.Keys(ctx)
		return err
	})
	require.Len(t, keys, 1)
	require.NoError(t, gateway.Revoke(t.Context(), keys[0].Hash))
	_, err = ask("sk-alice", "mini")
	require.ErrorAs(t, err, &refused)
	assert.Equal(t, http.StatusUnauthorized, refused.StatusCode)
}
