package kubesim

import (
	"fmt"
	"net"
	"net/http"
	"net/url"
	"slices"
	"strconv"
	"strings"

	corev1 "k8s.io/api/core/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"github.com/cps-gpu/homelab/sim/kubesim/internal/control"
	"github.com/cps-gpu/homelab/sim/kubesim/internal/relay"
)

// toNode reports whether a request is answered by a kubelet or a pod.
func toNode(t target) bool {
	return t.sub == "proxy" || t.kind.Kind == "Pod" && slices.Contains([]string{"log", "exec", "attach", "portforward"}, t.sub)
}

// passOn has a kubelet, or a pod, answer.
func (c server) passOn(w http.ResponseWriter, r *http.Request, t target) {
	c.mu.Lock()
	e := c.get(t.kind, t.namespace, strings.Split(t.name, ":")[0])
	if t.sub == "proxy" && t.kind.Kind == "Service" {
		e = c.get(t.kind, t.namespace, serviceOf(t.name))
	}
	c.mu.Unlock()
	if e == nil {
		answer(w, nil, 0, apierrors.NewNotFound(t.kind.resource(), t.name))
		return
	}
	if t.sub == "proxy" {
		c.proxy(w, r, t, e)
		return
	}
	c.mu.Lock()
	p := entryAs[corev1.Pod](e)
	c.mu.Unlock()
	path, err := relay.KubeletPath(t.sub, t.query.Get("container"), p)
	switch {
	case err != nil:
		answer(w, nil, 0, err)
		return
	case p.Spec.NodeName == "":
		answer(w, nil, 0, apierrors.NewBadRequest(fmt.Sprintf("pod %s does not have a host assigned", p.Name)))
		return
	}
	var node http.Handler
	if c.outside.Kubelet != nil {
		node = c.outside.Kubelet(p.Spec.NodeName)
	}
	if node == nil {
		answer(w, nil, 0, apierrors.NewInternalError(fmt.Errorf("Get %q: no route to the kubelet", "https://"+p.Spec.NodeName+":10250"+path))) //nolint:staticcheck // the API server's words
		return
	}
	there := r.Clone(r.Context())
	there.URL = &url.URL{Path: path, RawQuery: r.URL.RawQuery}
	there.RequestURI = there.URL.RequestURI()
	if t.sub == "log" {
		node.ServeHTTP(&relay.ErrorWriter{ResponseWriter: w, Failed: func(code int) {
			answer(w, nil, 0, apierrors.NewGenericServerResponse(code, "get", t.kind.resource(), t.name, "", 0, true))
		}}, there)
		return
	}
	node.ServeHTTP(w, there)
}

// serviceOf is the name in scheme:name:port.
func serviceOf(name string) string {
	parts := strings.Split(name, ":")
	if len(parts) == 3 {
		return parts[1]
	}
	return parts[0]
}

// proxy passes a request on to a pod, or to one behind a Service, at its address.
func (c server) proxy(w http.ResponseWriter, r *http.Request, t target, e *entry) {
	scheme, address, err := c.address(t, e)
	if err == nil && c.outside.Dial == nil {
		err = apierrors.NewServiceUnavailable("error trying to reach service: no route to host")
	}
	if err != nil {
		answer(w, nil, 0, err)
		return
	}
	relay.Proxy(w, r, scheme, address, "/"+t.rest, c.outside.Dial, func(w http.ResponseWriter, err error) { answer(w, nil, 0, err) })
}

// address is where the pod listens, or a ready one behind the Service.
func (c server) address(t target, e *entry) (scheme, address string, err error) {
	parts := strings.Split(t.name, ":")
	scheme, port := "http", ""
	switch len(parts) {
	case 2:
		port = parts[1]
	case 3:
		port = parts[2]
		if parts[0] == "https" {
			scheme = "https"
		}
	}
	c.mu.Lock()
	defer c.mu.Unlock()
	switch t.kind.Kind {
	case "Pod":
		if port == "" {
			port = "80"
		}
		return scheme, net.JoinHostPort(entryAs[corev1.Pod](e).Status.PodIP, port), nil
	case "Service":
		s := entryAs[corev1.Service](e)
		for _, p := range s.Spec.Ports {
			if port != "" && port != p.Name && port != strconv.Itoa(int(p.Port)) {
				continue
			}
			for _, pe := range c.all("pods") {
				pod := entryAs[corev1.Pod](pe)
				if at := control.PortOf(pod, p); pod.Namespace == s.Namespace && len(s.Spec.Selector) > 0 && control.Selects(&metav1.LabelSelector{MatchLabels: s.Spec.Selector}, pod.Labels) && control.Ready(pod) && at > 0 {
					return scheme, net.JoinHostPort(pod.Status.PodIP, strconv.Itoa(int(at))), nil
				}
			}
		}
		return "", "", apierrors.NewServiceUnavailable(fmt.Sprintf("no endpoints available for service %q", s.Name))
	}
	return "", "", noPath()
}
