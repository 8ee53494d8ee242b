// Package conformance is the suite by which the API of policies of administrators (sigs.k8s.io/network-policy-api) judges who implements
// it, for `go test -c`.
package conformance

import (
	"flag"
	"testing"

	"k8s.io/client-go/kubernetes"
	"k8s.io/client-go/tools/clientcmd"
	"sigs.k8s.io/controller-runtime/pkg/client"
	"sigs.k8s.io/network-policy-api/apis/v1alpha2"
	"sigs.k8s.io/network-policy-api/conformance/tests"
	"sigs.k8s.io/network-policy-api/conformance/utils/suite"
)

var kubeconfig = flag.String("kubeconfig", "", "how to reach the cluster")

func TestConformance(t *testing.T) {
	config, err := clientcmd.BuildConfigFromFlags("", *kubeconfig)
	if err != nil {
		t.Fatal(err)
	}
	// Nobody else asks this API server.
	config.QPS, config.Burst = 100, 200
	reads, err := client.New(config, client.Options{})
	if err != nil {
		t.Fatal(err)
	}
	if err := v1alpha2.Install(reads.Scheme()); err != nil {
		t.Fatal(err)
	}
	runs, err := kubernetes.NewForConfig(config)
	if err != nil {
		t.Fatal(err)
	}
	judge := suite.New(suite.Options{
		Client: reads, ClientSet: runs, KubeConfig: *config, Debug: true, CleanupBaseResources: true, EnableAllSupportedFeatures: true,
	})
	judge.Setup(t)
	judge.Run(t, tests.ConformanceTests)
}
