package kube

import (
	"context"

	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
)

// SecretData reads the contents of a Secret; the error is [ErrNotFound] if there is none.
func (c *Client) SecretData(ctx context.Context, namespace, name string) (map[string][]byte, error) {
	s := &corev1.Secret{TypeMeta: metav1.TypeMeta{APIVersion: "v1", Kind: "Secret"}, ObjectMeta: metav1.ObjectMeta{Namespace: namespace, Name: name}}
	if err := c.Get(ctx, s); err != nil {
		return nil, err
	}
	return s.Data, nil
}
