"""ONNX Runtime's attention on CPUs: its operator MultiHeadAttention, float32, forward."""
import os

import onnxruntime
from onnx import TensorProto, helper


def model(case):
    """One node on (batch, rows, heads x head size), which is how the tensors are stored."""
    shape = [1, case["sequence"], case["heads"] * case["head_dim"]]
    values = {name: helper.make_tensor_value_info(name, TensorProto.FLOAT, shape) for name in ("q", "k", "v", "out")}
    node = helper.make_node("MultiHeadAttention", ["q", "k", "v"], ["out"], domain="com.microsoft",
                            num_heads=case["heads"], unidirectional=int(case["causal"]))
    graph = helper.make_graph([node], "attention", [values[name] for name in ("q", "k", "v")], [values["out"]])
    made = helper.make_model(graph, opset_imports=[helper.make_opsetid("", 20), helper.make_opsetid("com.microsoft", 1)],
                             ir_version=9)
    return made.SerializeToString()


class OnnxRuntime:
    def __init__(self, rank, ranks, rendezvous):
        self.rank, self.ranks = rank, ranks

    def load(self, arrays, case):
        self.shape = arrays["q"].shape
        self.inputs = {name: array.reshape(*array.shape[:2], -1) for name, array in arrays.items()}
        options = onnxruntime.SessionOptions()
        options.intra_op_num_threads = int(os.environ["OMP_NUM_THREADS"])
        options.add_session_config_entry("session.intra_op.allow_spinning", "0")
        self.session = onnxruntime.InferenceSession(model(case), options, providers=["CPUExecutionProvider"])

    def forward(self):
        return self.session.run(["out"], self.inputs)

    def outputs(self, state):
        return {"out": state[0].reshape(self.shape)}

    def rows(self):
        return slice(None)

    def meet(self):
        """Only one rank."""
