"""Files of other tools, made as these make them: their own writers, or the layout of their source.

- Hugging Face: ``TrainerState.save_to_json`` (transformers, trainer_callback.py) dumps its fields
  with indent 2 and sorted keys; ``Trainer.log`` appends ``{**logs, "step": global_step}``, with
  ``epoch`` and ``num_input_tokens_seen`` among the logs.
- Weights & Biases: a chart's export is fully quoted, its columns as in wandb/wandb#5349.
- lm-evaluation-harness: ``EvaluationTracker.save_results_aggregated`` (loggers/
  evaluation_tracker.py) dumps the results with indent 2 and the model's name among them.
- TensorBoard: tensorboardX writes the event files, tensorboard reads them.
"""

import csv
import json
import subprocess
import sys

import numpy as np
import pandas as pd
import pytest

import jaxlaw as jl
from jaxlaw.formats import FORMATS, read_format
from jaxlaw.notes import DataError, UsageError

STEPS = np.arange(100, 1001, 100)
LOSS = 3.0 + 20.0 / STEPS
RATES = 3e-4 * (1 - STEPS / 2000)


def trainer_state(path, steps=STEPS, evaluate=500):
    """What a run with evaluations leaves behind."""
    history = []
    for step, loss, lr in zip(STEPS, LOSS, RATES, strict=True):
        if step > steps[-1]:
            break
        logs = {"loss": loss, "grad_norm": 1.5, "learning_rate": lr, "epoch": step / 1000}
        history.append({**logs, "num_input_tokens_seen": int(step) * 2**19, "step": int(step)})
        if step % evaluate == 0:
            history.append({"eval_loss": loss + 0.1, "eval_runtime": 9.0, "step": int(step)})
    if steps[-1] == STEPS[-1]:
        history.append({"train_runtime": 5e3, "train_loss": 3.2, "total_flos": 1e18, "step": 1000})
    state = {
        "epoch": 1.0, "global_step": int(steps[-1]), "max_steps": 1000, "num_train_epochs": 1,
        "total_flos": 1e18, "log_history": history, "best_metric": None, "trial_name": None,
        "is_local_process_zero": True, "num_input_tokens_seen": int(steps[-1]) * 2**19,
    }  # fmt: skip
    path.parent.mkdir(parents=True, exist_ok=True)
    path.write_text(json.dumps(state, indent=2, sort_keys=True) + "\n", "utf-8")
    return path


@pytest.fixture
def trainer_runs(tmp_path):
    """Two runs, one of them with its checkpoints beside the last state."""
    trainer_state(tmp_path / "out" / "small" / "trainer_state.json")
    trainer_state(tmp_path / "out" / "small" / "checkpoint-500" / "trainer_state.json", STEPS[:5])
    trainer_state(tmp_path / "out" / "large" / "checkpoint-300" / "trainer_state.json", STEPS[:3])
    trainer_state(tmp_path / "out" / "large" / "checkpoint-700" / "trainer_state.json", STEPS[:7])
    return tmp_path / "out"


def test_trainer_logs(trainer_runs):
    sizes = {"N": {"small": 1e8, "large": 1e9}}
    runs = jl.read_runs(trainer_runs, format="hf-trainer", values=sizes)
    small, large = (runs.table[runs.table["run"] == name] for name in ("small", "large"))
    assert small["step"].tolist() == STEPS.tolist() and large["step"].max() == 700
    assert small["loss"].tolist() == LOSS.tolist() and small["lr"].tolist() == RATES.tolist()
    assert small["D"].tolist() == (STEPS * 2**19).tolist()
    assert small["eval_loss"].dropna().tolist() == [LOSS[4] + 0.1, LOSS[9] + 0.1]
    assert set(small["N"]) == {1e8} and set(large["N"]) == {1e9}
    assert {"grad_norm", "epoch"} <= set(small)
    one = jl.read_runs(trainer_runs / "small" / "trainer_state.json", format="hf-trainer")
    assert set(one.table["run"]) == {"small"} and len(one) == 10
    observed = jl.read_runs(
        trainer_runs, {"loss": "eval_loss"}, format="hf-trainer", drop_invalid=True,
        values=sizes,
    ).observations("chinchilla", free=["E"])  # fmt: skip
    assert len(observed.target) == 3


def test_trainer_logs_are_curves(trainer_runs):
    curves = jl.read_curves(
        trainer_runs, format="hf-trainer", fill="linear", first_step=99, S1_before=0.0
    )
    assert set(curves.schedules) == {"small", "large"}
    assert curves.schedules["small"].rates[-1] == pytest.approx(RATES[-1])


def chart(path, runs, axis="Step"):
    """A chart's export, every cell in quotes."""
    metrics = [(run, metric, found) for run, each in runs.items() for metric, found in each.items()]
    head = [axis]
    for run, metric, _ in metrics:
        head += [f"{run} - {metric}{twin}" for twin in ("", "__MIN", "__MAX")]
    with path.open("w", newline="") as file:
        writer = csv.writer(file, quoting=csv.QUOTE_ALL)
        writer.writerow(head)
        for k, step in enumerate(STEPS):
            cells = [[found[k] if k < len(found) else ""] * 3 for *_, found in metrics]
            writer.writerow([step, *(cell for three in cells for cell in three)])


def test_wandb_charts_of_loss_and_rate_are_joined(tmp_path):
    chart(tmp_path / "a.csv", {"lr - 3e-4": {"train/loss": LOSS}, "b": {"train/loss": LOSS[:4]}})
    chart(tmp_path / "b.csv", {"lr - 3e-4": {"train/learning_rate": RATES}})
    table = jl.read_runs(tmp_path, format="wandb").table
    assert set(table["run"]) == {"lr - 3e-4", "b"}
    first = table[table["run"] == "lr - 3e-4"]
    assert first["step"].tolist() == STEPS.tolist()
    assert first["loss"].tolist() == LOSS.tolist() and first["lr"].tolist() == RATES.tolist()
    assert len(table[table["run"] == "b"]) == 4
    assert not [name for name in table if str(name).endswith(("__MIN", "__MAX"))]


def test_wandb_history(tmp_path):
    history = pd.DataFrame({"_step": STEPS, "_runtime": 1.0, "train_loss": LOSS, "val/acc": 0.5})
    history.to_csv(tmp_path / "run-1.csv")  # with its index, as users do
    table = jl.read_runs(tmp_path / "run-1.csv", format="wandb").table
    assert set(table) == {"run", "step", "loss", "_runtime", "val/acc"}
    assert table["loss"].tolist() == LOSS.tolist() and set(table["run"]) == {"run-1"}


def test_wandb_table_of_runs(tmp_path):
    table = pd.DataFrame(
        {"Name": ["a", "b"], "State": "finished", "n_params": [1e8, 1e9], "D": [1e9, 2e9],
         "train/loss": [3.0, 2.8], "Tags": ""}
    )  # fmt: skip
    table.to_csv(tmp_path / "runs.csv", index=False, quoting=csv.QUOTE_ALL)
    runs = jl.read_runs(tmp_path / "runs.csv", {"N": "n_params"}, format="wandb")
    observed = runs.observations("chinchilla", free=["E"])
    assert observed.target.tolist() == [3.0, 2.8] and observed.inputs["N"].tolist() == [1e8, 1e9]


def results(path, model="gpt-small", accuracy=0.5, parameters=124439808):
    """What save_results_aggregated writes."""
    record = {
        "results": {
            "hellaswag": {"alias": "hellaswag", "acc,none": accuracy, "acc_stderr,none": 0.01},
            "gsm8k": {
                "alias": "gsm8k", "exact_match,strict-match": 0.1,
                "exact_match_stderr,strict-match": "N/A", "exact_match,flexible-extract": 0.2,
            },
        },
        "configs": {"hellaswag": {"task": "hellaswag"}},
        "n-shot": {"hellaswag": 10, "gsm8k": 5},
        "config": {
            "model": "hf", "model_args": f"pretrained={model},dtype=float16",
            "model_num_parameters": parameters,
        },
        "task_hashes": {}, "model_source": "hf", "model_name": model,
    }  # fmt: skip
    path.parent.mkdir(exist_ok=True)
    path.write_text(json.dumps(record, indent=2, ensure_ascii=False))


def test_lm_eval_results(tmp_path):
    results(tmp_path / "gpt-small" / "results_2026-01-02T03-04-05.678901.json")
    results(tmp_path / "gpt-large" / "results_2026-01-02T03-04-06.json", "gpt-large", 0.7, -1)
    table = jl.read_runs(tmp_path, format="lm-eval", where="task == 'hellaswag'").table
    accuracy = table.set_index("run")["acc"]
    assert accuracy.to_dict() == {"gpt-small": 0.5, "gpt-large": 0.7}
    assert set(table["n_shot"]) == {10} and set(table["acc_stderr"]) == {0.01}
    assert table.set_index("run")["N"].to_dict()["gpt-small"] == 124439808
    table = jl.read_runs(tmp_path, format="lm-eval", where="task == 'gsm8k'").table
    assert set(table["exact_match,strict-match"]) == {0.1}
    assert "pretrained=gpt-large,dtype=float16" in set(table["model_args"])


@pytest.fixture
def event_folders(tmp_path):
    tensorboardX = pytest.importorskip("tensorboardX")
    for run, shift in (("one", 0.0), ("two", 0.5)):
        with tensorboardX.SummaryWriter(str(tmp_path / "logs" / run)) as writer:
            for step, loss, lr in zip(STEPS, LOSS, RATES, strict=True):
                writer.add_scalar("train/loss", loss + shift, int(step))
                writer.add_scalar("train/learning_rate", lr, int(step))
    return tmp_path / "logs"


@pytest.mark.filterwarnings("ignore::DeprecationWarning")
def test_tensorboard_event_files(event_folders):
    pytest.importorskip("tensorboard")
    table = jl.read_runs(event_folders, format="tensorboard").table
    for run, shift in (("one", 0.0), ("two", 0.5)):
        mine = table[table["run"] == run]
        assert mine["step"].tolist() == STEPS.tolist()
        np.testing.assert_array_equal(mine["loss"], np.float32(LOSS + shift))
        np.testing.assert_array_equal(mine["lr"], np.float32(RATES))


def test_tensorboard_csv(tmp_path):
    for tag, values in (("loss", LOSS), ("learning_rate", RATES)):
        table = pd.DataFrame({"Wall time": 1.7e9, "Step": STEPS, "Value": values})
        table.to_csv(tmp_path / f"run-small-tag-{tag}.csv", index=False)
    table = jl.read_runs(tmp_path, format="tensorboard").table
    assert table["loss"].tolist() == LOSS.tolist() and table["lr"].tolist() == RATES.tolist()
    assert set(table["run"]) == {"small"}


WITHOUT = """
import sys; sys.modules["tensorboard"] = None
import jaxlaw as jl
try: jl.read_runs(sys.argv[1], format="tensorboard")
except jl.UsageError as error: print(error)
"""


def test_without_tensorboard_its_files_say_what_to_install(tmp_path):
    (tmp_path / "events.out.tfevents.1").write_bytes(b"")
    done = subprocess.run(
        [sys.executable, "-c", WITHOUT, str(tmp_path)], capture_output=True, text=True
    )
    assert "pip install tensorboard" in done.stdout and done.returncode == 0


# --- what is refused


@pytest.mark.parametrize(
    ("name", "file", "content", "said"),
    [
        ("hf-trainer", "trainer_state.json", "{}", "'log_history' should hold a list"),
        ("hf-trainer", "trainer_state.json", "{", "not a JSON file"),
        ("hf-trainer", "trainer_state.json", '{"log_history": [{}]}', "key 'step'"),
        ("hf-trainer", "trainer_state.json", '{"log_history": []}', "nothing logged"),
        ("wandb", "runs.csv", "a,b\n1,2\n", "'run - metric'"),
        ("tensorboard", "runs.csv", "a,b\n1,2\n", "Wall time, Step, Value"),
        ("lm-eval", "results_1.json", '{"results": []}', "'results' should hold an object"),
        ("lm-eval", "results_1.json", '{"results": {"a": 1}}', "'results.a'"),
        ("lm-eval", "results_1.json", '{"results": {}}', "names no task"),
    ],
)
def test_an_unknown_layout_is_named(tmp_path, name, file, content, said):
    (tmp_path / file).write_text(content)
    for source in (tmp_path, tmp_path / file):
        with pytest.raises(DataError) as error:
            read_format(source, name)
        assert said in str(error.value) and file in str(error.value)


@pytest.mark.parametrize("name", FORMATS)
def test_no_files_and_no_format(tmp_path, name):
    with pytest.raises(DataError, match="no file of format"):
        read_format(tmp_path, name)
    (tmp_path / "trainer_state.json").write_text("{}")
    with pytest.raises(UsageError, match="Did you mean 'trainer_state.json'"):
        read_format(tmp_path / "trainer_stat.json", name)
    with pytest.raises(UsageError, match="reads files and folders"):
        read_format({"a": [1]}, name)


def test_a_format_nearly_right_and_values_that_do_not_fit(trainer_runs):
    with pytest.raises(UsageError, match="Did you mean 'hf-trainer'"):
        jl.read_runs(trainer_runs, format="hf-trianer")

    def values(**given):
        return jl.read_runs(trainer_runs, format="hf-trainer", values=given)

    for given, said in (
        ({"N": {"small": 1e8, "lrge": 1e9}}, "Did you mean 'large'"),
        ({"N": {"small": 1e8}}, "run 'large' has no N"),
        ({"D": 1e9}, "a column 'D' of its own"),
        ({"N": "big"}, "give a number"),
    ):
        with pytest.raises(UsageError, match=said):
            values(**given)
    with pytest.raises(UsageError, match="no column run"):
        jl.read_runs({"D": [1.0], "loss": [1.0]}, values={"N": {"a": 1}})
    assert set(jl.read_runs({"D": [1.0], "loss": [1.0]}, values={"N": 7e9}).table["N"]) == {7e9}


def test_formats_from_the_shell(trainer_runs, monkeypatch, capsys):
    pytest.importorskip("typer")
    from jaxlaw import cli

    arguments = ["plan", "envelope", str(trainer_runs), "--format", "hf-trainer", "--json"]
    monkeypatch.setattr(sys, "argv", ["jaxlaw", *arguments, "--value", "N=small:1e8,large:1e9"])
    with pytest.raises(SystemExit) as stop:
        cli.main()
    assert stop.value.code == 0
    assert set(json.loads(capsys.readouterr().out)["N"]) <= {1e8, 1e9}
