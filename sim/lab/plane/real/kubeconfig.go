package real

import (
	"fmt"

	"k8s.io/client-go/rest"
	"k8s.io/client-go/tools/clientcmd"
	"k8s.io/client-go/tools/clientcmd/api"
)

// kubeconfig makes a file of the shape that K3s writes to /etc/rancher/k3s/k3s.yaml.
func kubeconfig(server string, ca []byte, user pair) ([]byte, error) {
	const name = "default"
	out, err := clientcmd.Write(api.Config{
		Clusters:       map[string]*api.Cluster{name: {Server: server, CertificateAuthorityData: ca}},
		AuthInfos:      map[string]*api.AuthInfo{name: {ClientCertificateData: user.cert, ClientKeyData: user.key}},
		Contexts:       map[string]*api.Context{name: {Cluster: name, AuthInfo: name}},
		CurrentContext: name,
	})
	if err != nil {
		return nil, fmt.Errorf("kubeconfig: %w", err)
	}
	return out, nil
}

// restConfig is what the lab's own controllers connect with.
func restConfig(server string, ca []byte, user pair) *rest.Config {
	return &rest.Config{
		Host:            server,
		TLSClientConfig: rest.TLSClientConfig{CAData: ca, CertData: user.cert, KeyData: user.key},
		UserAgent:       "homelab-lab",
		QPS:             200, Burst: 400,
	}
}
