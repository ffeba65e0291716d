package labtest

import (
	"context"
	"fmt"

	authenticationv1 "k8s.io/api/authentication/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/client-go/kubernetes"
	"k8s.io/client-go/rest"
)

// Rights are what an API server says of who has a token: name and groups, whether they may look at pods, and whether at
// Secrets. The error is the API server's own if it does not take the token.
func Rights(ctx context.Context, server *rest.Config, token string) (string, error) {
	config := rest.AnonymousClientConfig(server)
	config.BearerToken = token
	api, err := kubernetes.NewForConfig(config)
	if err != nil {
		return "", err
	}
	who, err := api.AuthenticationV1().SelfSubjectReviews().Create(ctx, &authenticationv1.SelfSubjectReview{}, metav1.CreateOptions{})
	if err != nil {
		return "", err
	}
	_, pods := api.CoreV1().Pods("").List(ctx, metav1.ListOptions{})
	_, secrets := api.CoreV1().Secrets("").List(ctx, metav1.ListOptions{})
	for _, err := range []error{pods, secrets} {
		if err != nil && !apierrors.IsForbidden(err) {
			return "", err
		}
	}
	return fmt.Sprintf("%s %v pods=%t secrets=%t", who.Status.UserInfo.Username, who.Status.UserInfo.Groups, pods == nil, secrets == nil), nil
}
