#!/bin/bash
# A Kubernetes 1.20.2 control plane and etcd from Debian bookworm's own packages: the source package `kubernetes` has the whole tree with
# what it vendors, and golang-1.19 compiles it. Nothing is installed: all stands in one folder, by default ~/.cache/polyrhythm/kubernetes.
# About 7 minutes of one idle core, at idle priority; what is there already is not built again. For tests on loopback only: the release is old.
set -euo pipefail
folder=${POLYRHYTHM_KUBERNETES:-$HOME/.cache/polyrhythm/kubernetes}
mkdir -p "$folder"
cd "$folder"
folder=$PWD
programs="kube-apiserver kube-scheduler kube-controller-manager"
exec 9> lock && flock 9 # two builds at once would write the same files
if [ "$(ls bin 2> /dev/null | grep -cxE "${programs// /|}|etcd")" = 4 ]; then exit 0; fi

# apt with settings and lists of its own: the machine's do not name source packages
mkdir -p apt/etc apt/lists/partial apt/cache/archives/partial packages root source gopath/src/k8s.io bin
sed 's/^Types: deb$/Types: deb deb-src/' /etc/apt/sources.list.d/debian.sources > apt/etc/debian.sources
cat > apt/apt.conf << END
Dir::Etc::sourcelist "/dev/null";
Dir::Etc::sourceparts "$folder/apt/etc";
Dir::State::lists "$folder/apt/lists";
Dir::Cache "$folder/apt/cache";
END
export APT_CONFIG=$folder/apt/apt.conf
if ! [ -e packages/complete ]; then
    apt-get -qq update
    (
        cd packages
        apt-get -qq source --download-only kubernetes
        apt-get -qq download etcd-server golang-1.19-go golang-1.19-src golang-github-modern-go-reflect2-dev
        touch complete
    ) 2> apt.log || { cat apt.log; exit 1; }
fi
for package in packages/*.deb; do dpkg -x "$package" root; done
tar xzf packages/kubernetes_*.orig.tar.gz -C source --strip-components=1
# the vendored reflect2 1.0.1 is older than how Go 1.18 iterates over maps; Debian's 1.0.2 takes its place
rm -rf source/vendor/github.com/modern-go/reflect2
cp -rL root/usr/share/gocode/src/github.com/modern-go/reflect2 source/vendor/github.com/modern-go/reflect2
ln -sfn "$folder/source" gopath/src/k8s.io/kubernetes

export GOROOT=$folder/root/usr/lib/go-1.19 GOPATH=$folder/gopath GOCACHE=$folder/gocache
export GO111MODULE=off GOFLAGS= GOPROXY=off CGO_ENABLED=0 GOMAXPROCS=1
export PATH=$GOROOT/bin:$PATH
idle="chrt --idle 0 nice -n 19"
cd gopath/src/k8s.io/kubernetes
# the one generated file that the package does not have
$idle go build -p 1 -o "$folder/bin/openapi-gen" ./vendor/k8s.io/kube-openapi/cmd/openapi-gen
staging=$(ls -d vendor/k8s.io/*/ | grep -vE '/(code-generator|sample-|kube-openapi|gengo|klog|utils|heapster|system-validators)')
inputs=$(grep -rl --include='*.go' '+k8s:openapi-gen=' pkg $staging | grep -v zz_generated | xargs -n1 dirname | sort -u |
    sed 's#^#k8s.io/kubernetes/#;s#//#/#g' | paste -sd,)
$idle "$folder/bin/openapi-gen" --logtostderr -i "$inputs" -p k8s.io/kubernetes/pkg/generated/openapi -O zz_generated.openapi \
    -h vendor/k8s.io/code-generator/hack/boilerplate.go.txt -r /dev/null -o "$GOPATH/src" 2> "$folder/openapi.log"
vendored=k8s.io/kubernetes/vendor/k8s.io
version="-s -w -X $vendored/component-base/version.gitVersion=v1.20.2 -X $vendored/component-base/version.gitMajor=1"
version="$version -X $vendored/component-base/version.gitMinor=20 -X $vendored/client-go/pkg/version.gitVersion=v1.20.2"
for program in $programs; do
    started=$SECONDS
    $idle go build -p 1 -tags providerless -ldflags "$version" -o "$folder/bin/$program" "./cmd/$program"
    echo "$program: $((SECONDS - started)) s"
done
cp "$folder/root/usr/bin/etcd" "$folder/bin/etcd" # last, so that the four are there only when all are built
rm -rf "$folder/source" "$folder/gopath" "$folder/root" "$folder/gocache" "$folder/packages" "$folder/bin/openapi-gen"
