#!/bin/bash
# The Job in a cluster of one node: its control plane, its kubelet and containerd run here, from /opt/kube.
# The node has 6 CPUs, two of them reserved; the kubelet's CPU manager is static, so the pod's four are its own.
. "$(dirname "$0")/common.sh"
here=$(cd "$(dirname "$0")" && pwd)
units="trial-etcd trial-kube-apiserver trial-kube-controller-manager trial-kube-scheduler trial-kubelet containerd"
KUBE=/opt/kube
export PATH=$KUBE:$PATH KUBECONFIG=/run/kube/config
mkdir -p /run/kube /etc/cni/net.d /etc/containerd /srv/study && cd /run/kube || exit 1
modprobe -a overlay bridge veth dummy
ip link add node0 type dummy && ip address add 10.0.0.1/24 dev node0 && ip link set node0 up && ip route add default via 10.0.0.2
sysctl -q net.ipv4.ip_forward=1
openssl genrsa -out sa.key 2048 2>/dev/null && openssl rsa -in sa.key -pubout -out sa.pub 2>/dev/null
token=$(openssl rand -hex 16)
echo "$token,admin,admin,system:masters" >tokens.csv
cat >config <<CONFIG
apiVersion: v1
kind: Config
clusters: [{name: trial, cluster: {server: "https://127.0.0.1:6443", insecure-skip-tls-verify: true}}]
users: [{name: admin, user: {token: $token}}]
contexts: [{name: trial, context: {cluster: trial, user: admin}}]
current-context: trial
CONFIG
cat >kubelet.yaml <<KUBELET
apiVersion: kubelet.config.k8s.io/v1beta1
kind: KubeletConfiguration
authentication: {anonymous: {enabled: true}, webhook: {enabled: false}}
authorization: {mode: AlwaysAllow}
cgroupDriver: systemd
cpuManagerPolicy: static
reservedSystemCPUs: "0,1"
failSwapOn: false
containerRuntimeEndpoint: unix:///run/containerd/containerd.sock
KUBELET
cat >/etc/containerd/config.toml <<CONTAINERD
version = 2
[plugins."io.containerd.grpc.v1.cri"]
  sandbox_image = "localhost/pause:1"
  [plugins."io.containerd.grpc.v1.cri".cni]
    bin_dir = "/usr/lib/cni"
    conf_dir = "/etc/cni/net.d"
  [plugins."io.containerd.grpc.v1.cri".containerd.runtimes.runc]
    runtime_type = "io.containerd.runc.v2"
    [plugins."io.containerd.grpc.v1.cri".containerd.runtimes.runc.options]
      SystemdCgroup = true
CONTAINERD
cat >/etc/cni/net.d/10-trial.conflist <<CNI
{"cniVersion": "0.4.0", "name": "trial", "plugins": [{"type": "bridge", "bridge": "cni0", "isGateway": true, "ipMasq": false,
 "ipam": {"type": "host-local", "ranges": [[{"subnet": "10.88.0.0/16"}]], "routes": [{"dst": "0.0.0.0/0"}]}}]}
CNI
part() { local name=$1; shift; systemd-run --quiet --unit="trial-$name" --property=LimitNOFILE=65536 --setenv=PATH="$PATH" "$@" || fail "no $name"; }
systemctl restart containerd || fail "no containerd"
part etcd "$KUBE/etcd" --data-dir /run/kube/etcd --unsafe-no-fsync --heartbeat-interval 500 --election-timeout 5000
part kube-apiserver "$KUBE/kube-apiserver" --etcd-servers=http://127.0.0.1:2379 --cert-dir=/run/kube/certs --bind-address=127.0.0.1 \
    --advertise-address=10.0.0.1 --kubelet-preferred-address-types=InternalIP \
    --authorization-mode=AlwaysAllow --token-auth-file=/run/kube/tokens.csv --service-cluster-ip-range=10.96.0.0/16 \
    --service-account-issuer=https://kubernetes.default.svc --service-account-key-file=/run/kube/sa.pub \
    --service-account-signing-key-file=/run/kube/sa.key
answers() {
    systemctl is-active --quiet trial-kube-apiserver || fail "the API server ended"
    kubectl get --raw /readyz >/dev/null 2>&1
}
until_ 900 "an answer of the API server" answers
part kube-controller-manager "$KUBE/kube-controller-manager" --kubeconfig=/run/kube/config --leader-elect=false \
    --service-account-private-key-file=/run/kube/sa.key --authentication-kubeconfig=/run/kube/config --authorization-kubeconfig=/run/kube/config
part kube-scheduler "$KUBE/kube-scheduler" --kubeconfig=/run/kube/config --leader-elect=false \
    --authentication-kubeconfig=/run/kube/config --authorization-kubeconfig=/run/kube/config
for image in tuner pause; do ctr -n k8s.io images import "/root/$image.tar" >/dev/null || fail "no image $image"; done
part kubelet "$KUBE/kubelet" --kubeconfig=/run/kube/config --config=/run/kube/kubelet.yaml --hostname-override=trial --node-ip=10.0.0.1
until_ 900 "a node" eval 'kubectl get node trial >/dev/null 2>&1'
kubectl wait --for=condition=Ready --timeout=300s node/trial >/dev/null || fail "the node is not ready"
held "a cluster: $(kubectl get node trial -o jsonpath="\
{.status.nodeInfo.kubeletVersion}, {.status.nodeInfo.containerRuntimeVersion}, {.status.allocatable.cpu} of {.status.capacity.cpu} CPUs")"

# What an administrator has: a volume on this node, a label. What deploy/README.md says: a config, and the Job.
kubectl apply -f - >/dev/null <<'VOLUME' || fail "no volume"
apiVersion: v1
kind: PersistentVolume
metadata: {name: trial}
spec:
  capacity: {storage: 2Gi}
  accessModes: [ReadWriteOnce]
  local: {path: /srv/study}
  nodeAffinity: {required: {nodeSelectorTerms: [{matchExpressions: [{key: kubernetes.io/hostname, operator: In, values: [trial]}]}]}}
VOLUME
study /etc/tuner/study.yaml "2x1, 1x2" 3 30s 20s
kubectl create configmap tuner-study --from-file=study.yaml=/etc/tuner/study.yaml >/dev/null || fail "no config map"
kubectl label node trial tuner.example/staging=true >/dev/null
apply() { kubectl apply -f "$here/deploy/kubernetes/job.yaml" >/dev/null || fail "the Job is refused"; }
pods() { kubectl get pods -l app=tuner-study "$@"; }
running() { pods --field-selector=status.phase=Running -o name | tail -1; }
states() { pods -o wide; kubectl describe job tuner-study | tail -12; pods -o yaml | grep -E "reason|message" | sort | uniq -c | head; }
# follow N: the next pod's log goes to a file, as soon as it runs.
next_pod() {
    pod=$(running)
    [ -n "$pod" ] && [ "$pod" != "${last:-}" ]
}
follow() {
    until_ 900 "pod $1" next_pod
    last=$pod
    kubectl logs --follow "$pod" >/root/pod.$1.log 2>&1 &
    told=/root/pod.$1.log
}
told_windows() { [ "$(grep -c 'items/10 min, load' "$told")" -ge "$1" ]; }
apply
follow 1
until_ 600 "a first window" told_windows 1
kubectl create --raw "/api/v1/namespaces/default/$(echo "$pod" | sed 's|^pod/|pods/|')/eviction" -f - >/dev/null <<EVICTION || fail "no eviction"
{"apiVersion": "policy/v1", "kind": "Eviction", "metadata": {"name": "${pod#pod/}", "namespace": "default"}}
EVICTION
held "its pod is evicted"
follow 2
until_ 600 "a window of the next pod" told_windows 1
for process in /proc/[0-9]*; do
    tr '\0' ' ' 2>/dev/null <"$process/cmdline" | grep -q '/opt/tuner/bin/tuner grid' && kill -KILL "${process#/proc/}" && break
done
held "tuner in the next pod is killed"
follow 3
kubectl wait --for=condition=complete --timeout=900s job/tuner-study >/dev/null || { states; tail -5 "$told"; fail "the Job is not complete"; }
cat /root/pod.*.log
n=$(cat /root/pod.*.log | grep -c 'items/10 min, load')
[ "$n" -eq 6 ] || fail "$n windows were told in three pods, of 6"
[ "$(kept /srv/study/study.tuner.db | wc -l)" -ge 6 ] || fail "windows are missing in the file"
[ -s /srv/study/RUNBOOK.md ] || fail "no runbook"
held "the Job is complete: 6 windows in three pods, none of them twice; the runbook is on the volume"
grep -q "looked for on 4 CPUs" /root/pod.1.log || fail "its CPUs are not its own: $(grep CPUs /root/pod.1.log)"
held "its four CPUs are its own"
kubectl delete -f "$here/deploy/kubernetes/job.yaml" >/dev/null

# What it cannot work with ends the Job at once, not after five pods.
kubectl apply -f - >/dev/null <<'VOLUME' || fail "no second volume"
apiVersion: v1
kind: PersistentVolume
metadata: {name: trial-2}
spec:
  capacity: {storage: 2Gi}
  accessModes: [ReadWriteOnce]
  local: {path: /srv}
  nodeAffinity: {required: {nodeSelectorTerms: [{matchExpressions: [{key: kubernetes.io/hostname, operator: In, values: [trial]}]}]}}
VOLUME
sed -i 's/^  strategy:.*/  stratgy: all/' /etc/tuner/study.yaml
kubectl create configmap tuner-study --from-file=study.yaml=/etc/tuner/study.yaml --dry-run=client -o yaml | kubectl apply -f - >/dev/null 2>&1
apply
kubectl wait --for=condition=failed --timeout=300s job/tuner-study >/dev/null || { states; fail "a Job with a wrong config goes on"; }
reason=$(kubectl get job tuner-study -o jsonpath='{.status.conditions[?(@.type=="Failed")].reason}')
[ "$reason" = PodFailurePolicy ] || fail "a Job with a wrong config failed by $reason"
held "a wrong config ends the Job with one pod ($reason)"
echo "all of it held"
