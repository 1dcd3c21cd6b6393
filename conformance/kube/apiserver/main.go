// Kube-apiserver is Kubernetes' API server as its own project builds it: nothing but its command. It is a module of its own,
// outside of Holdfast's, so that what it requires stays out of Holdfast's go.mod. scripts/kube.sh builds it.
package main

import (
	"os"

	"k8s.io/component-base/cli"
	"k8s.io/kubernetes/cmd/kube-apiserver/app"
)

func main() {
	os.Exit(cli.Run(app.NewAPIServerCommand()))
}
