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
from pathlib import Path

import numpy as np
import pandas as pd
import pytest

import jaxlaw as jl
from jaxlaw.data.formats import read_format
from jaxlaw.errors import DataError, UsageError

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
    # Evaluations of both corpora and a phase: the training loss between them is no point.
    curves = jl.read_loss_curves(
        trainer_runs, {"loss_g": "eval_loss"}, format="hf-trainer",
        values={"phase": "cpt", "r_g": 0.3}, corpus="general", fill="linear", first_step=0,
    )  # fmt: skip
    assert curves.table["step"].tolist() == [500, 500, 1000] and len(curves) == 2


def test_trainer_logs_are_recognised_by_their_name(trainer_runs):
    table = jl.read_runs(trainer_runs, format="hf-trainer").table
    pd.testing.assert_frame_equal(jl.read_runs(trainer_runs).table, table)
    (file,) = (trainer_runs / "small").glob("*.json")
    with pytest.raises(DataError, match="S1 .*by jl.read_loss_curves"):
        jl.fit("annealing", file)
    curves = jl.read_loss_curves(trainer_runs, fill="linear", first_step=0)
    assert curves.schedules["small"].rates[-1] == pytest.approx(RATES[-1]) and len(curves) == 2


def chart(path, runs):
    """A chart's export, every cell in quotes."""
    columns = {
        f"{run} - {metric}{twin}": pd.Series(result)
        for run, each in runs.items()
        for metric, result in each.items()
        for twin in ("", "__MIN", "__MAX")
    }
    table = pd.DataFrame({"Step": STEPS, **columns})
    table.to_csv(path, index=False, quoting=csv.QUOTE_ALL)


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
    history = pd.DataFrame({"_step": STEPS, "train_loss": LOSS, "val/acc": 0.5})
    history.to_csv(tmp_path / "run-1.csv")  # with its index, as users do
    table = jl.read_runs(tmp_path / "run-1.csv", format="wandb").table
    assert set(table) == {"run", "step", "loss", "val/acc"} and set(table["run"]) == {"run-1"}
    assert table["loss"].tolist() == LOSS.tolist()


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


def test_tensorboard_csv(tmp_path):
    for tag, values in (("loss", LOSS), ("learning_rate", RATES)):
        table = pd.DataFrame({"Value": values, "Wall time": 1.7e9, "Step": STEPS})
        table.to_csv(tmp_path / f"run-small-tag-{tag}.csv", index=False)
    table = jl.read_runs(tmp_path, format="tensorboard").table
    assert table["loss"].tolist() == LOSS.tolist() and table["lr"].tolist() == RATES.tolist()
    assert set(table["run"]) == {"small"}


# --- runs of one name in several folders stay apart

SIX = [f"lr{rate}/seed{seed}" for rate in ("1e-4", "3e-4", "1e-3") for seed in (0, 1)]


@pytest.mark.parametrize(
    "format, name, head, row",
    [
        ("tensorboard", "run-version_0-tag-loss.csv", "Wall time,Step,Value", "1,{},3"),
        ("wandb", "chart.csv", "Step,version_0 - loss", "{},3"),
    ],
)
def test_curves_of_two_folders_and_one_name_do_not_mix(tmp_path, format, name, head, row):
    for folder, step in (("a", 100), ("b", 150)):
        (tmp_path / folder).mkdir()
        (tmp_path / folder / name).write_text(f"{head}\n{row.format(step)}\n")
    with pytest.raises(DataError, match="both log loss of a run version_0"):
        read_format(tmp_path, format)
    assert len(read_format(tmp_path / "a", format).frame) == 1


def assert_every_run_is_there(source, name, losses, **options):
    """Each run has its own rows and losses: {name: (rows,)}."""
    table = jl.read_runs(source, format=name, **options).table
    assert set(table["run"]) == set(losses)
    for run, expected in losses.items():
        result = table[table["run"] == run]["loss"].dropna()
        np.testing.assert_allclose(result, expected, rtol=1e-6, err_msg=run)


def test_trainer_runs_of_one_name_stay_apart(tmp_path):
    losses = {}
    for shift, run in enumerate(SIX):
        path = trainer_state(tmp_path / run / "trainer_state.json")
        record = json.loads(path.read_text())
        for entry in record["log_history"]:
            entry |= {name: entry[name] + shift for name in ("loss", "eval_loss") if name in entry}
        path.write_text(json.dumps(record))
        # A checkpoint of the run holds the beginning of the same log.
        record["log_history"] = record["log_history"][:5]
        (path.parent / "checkpoint-400").mkdir()
        (path.parent / "checkpoint-400" / "trainer_state.json").write_text(json.dumps(record))
        losses[run] = LOSS + shift
    assert_every_run_is_there(tmp_path, "hf-trainer", losses)


def test_checkpoints_of_another_run_are_refused(tmp_path):
    trainer_state(tmp_path / "out" / "trainer_state.json", STEPS[:5])
    old = trainer_state(tmp_path / "out" / "checkpoint-1000" / "trainer_state.json")
    assert len(jl.read_runs(tmp_path, format="hf-trainer")) == 10
    record = json.loads(old.read_text())
    record["log_history"][2]["loss"] += 0.25
    old.write_text(json.dumps(record))
    with pytest.raises(DataError) as error:
        jl.read_runs(tmp_path, format="hf-trainer")
    said = ("checkpoint-1000/trainer_state.json", "out/trainer_state.json", "run out, step 300")
    assert all(part in str(error.value) for part in (*said, "loss is 3.31", "and 3.06"))


def write_events(folder, name, rows):
    """An event file of its own, as every start of a run makes one."""
    tensorboardX = pytest.importorskip("tensorboardX")
    with tensorboardX.SummaryWriter(str(folder / name)) as writer:
        for step, loss in rows:
            writer.add_scalar("loss", loss, int(step))
    (made,) = (folder / name).iterdir()
    made.rename(folder / f"events.out.tfevents.{name}.host")
    (folder / name).rmdir()


@pytest.mark.filterwarnings("ignore::DeprecationWarning")
def test_events_of_a_resumed_run_and_of_two_runs_in_one_folder(tmp_path):
    pytest.importorskip("tensorboard")
    logs, mixed = tmp_path / "logs", tmp_path / "mixed"
    write_events(logs / "resumed", "1700000000", zip(STEPS[:7], LOSS[:7] + 0.5, strict=True))
    write_events(logs / "resumed", "1700000900", zip(STEPS[4:], LOSS[4:], strict=True))
    write_events(logs / "plain", "1700000000", zip(STEPS, LOSS, strict=True))
    losses = {"resumed": np.r_[LOSS[:4] + 0.5, LOSS[4:]], "plain": LOSS}
    assert_every_run_is_there(logs, "tensorboard", losses)
    assert jl.read_runs(logs).table["step"].tolist() == [*STEPS, *STEPS]
    write_events(mixed, "1700000000", zip(STEPS, LOSS, strict=True))
    write_events(mixed, "1700000900", zip(STEPS, LOSS + 1, strict=True))
    with pytest.raises(DataError) as error:
        jl.read_runs(mixed, format="tensorboard")
    said = ("tfevents.1700000000", "tfevents.1700000900", "run mixed, step 100")
    assert all(part in str(error.value) for part in said)


# --- what is refused


@pytest.mark.parametrize(
    ("name", "file", "content", "said"),
    [
        ("hf-trainer", "trainer_state.json", "{}", "'log_history' should hold a list"),
        ("wandb", "runs.csv", "a,b\n1,2\n", "'run - metric'"),
        ("tensorboard", "runs.csv", "a,b\n1,2\n", "Wall time, Step, Value"),
        ("lm-eval", "results_1.json", "{}", "'results' should hold"),
    ],
)
def test_an_unknown_layout_is_named(tmp_path, name, file, content, said):
    (tmp_path / file).write_text(content)
    for source in (tmp_path, tmp_path / file):
        with pytest.raises(DataError) as error:
            read_format(source, name)
        assert said in str(error.value) and file in str(error.value)


def test_scores_join_a_table_of_models_by_name(tmp_path):
    (tmp_path / "evals").mkdir()
    results(tmp_path / "evals" / "a" / "results_1.json", "lab/small", 0.5)
    results(tmp_path / "evals" / "b" / "results_1.json", "lab/large", 0.7)
    models = pd.DataFrame({"model": ["large", "small", "none"], "N": [1e9, 1e8, 1e7]}, [7, 8, 9])
    table = jl.data.join_scores(models, tmp_path / "evals")
    assert table["acc_hellaswag"].tolist()[:2] == [0.7, 0.5] and table.index.tolist() == [7, 8, 9]
    assert np.isnan(table["acc_hellaswag"][9]) and table["N"].tolist() == [1e9, 1e8, 1e7]
    assert table["exact_match,strict-match_gsm8k"][7] == 0.1
    assert not [column for column in table if "stderr" in column]
    named = models.rename(columns={"model": "name"})
    assert jl.data.join_scores(named, tmp_path / "evals", model="name")["acc_hellaswag"][7] == 0.7
    for change, message in (
        (named, "no column model with the models' names"),
        (models.assign(model=["x", "y", "z"]), "names there are such as lab/"),
        (models.assign(acc_hellaswag=0.1), "has acc_hellaswag already"),
    ):
        with pytest.raises((DataError, UsageError), match=message):
            jl.data.join_scores(change, tmp_path / "evals")


def test_scores_of_checkpoints_join_the_curve_of_their_run(tmp_path):
    for step, accuracy in ((1000, 0.3), (2000, 0.4)):
        record = {
            "results": {"piqa": {"acc": accuracy}},
            "config": {"model_args": f"pretrained=lab/small,revision=step{step}"},
        }
        (tmp_path / f"small-{step}.json").write_text(json.dumps(record))
    read = jl.read_runs(tmp_path, format="lm-eval").table
    assert read[["run", "step"]].values.tolist() == [["lab/small", 1000], ["lab/small", 2000]]
    curve = pd.DataFrame({"run": "small", "step": [500, 1000, 2000], "loss": [4.0, 3.5, 3.2]})
    scores = jl.data.join_scores(curve, tmp_path, model="run")["acc_piqa"]
    assert scores.tolist()[1:] == [0.3, 0.4] and np.isnan(scores[0])
    with pytest.raises(DataError, match="several revisions of one model"):
        jl.data.join_scores({"model": ["small"]}, tmp_path)
    with pytest.raises(DataError, match="at its step.*lab/small at 1000.*lab/small at 7"):
        jl.data.join_scores({"model": ["small"], "step": [7]}, tmp_path)
    # Results without a step: of another model by its name alone, of this one where none is asked.
    for name, accuracy in (("lab/small", 0.5), ("lab/large", 0.9)):
        record = {"results": {"piqa": {"acc": accuracy}}}
        record["config"] = {"model_args": f"pretrained={name}"}
        (tmp_path / f"{Path(name).name}.json").write_text(json.dumps(record))
    models = pd.DataFrame({"model": ["small", "small", "large"], "step": [2000, np.nan, 2000]})
    assert jl.data.join_scores(models, tmp_path)["acc_piqa"].tolist() == [0.4, 0.5, 0.9]
    (tmp_path / "small-2000.json").unlink()
    with pytest.raises(DataError, match="several revisions of one model"):
        jl.data.join_scores({"model": ["small"]}, tmp_path)


def test_results_of_several_numbers_of_shots_are_columns_of_their_own(tmp_path):
    for shots, accuracy in ((0, 0.4), (5, 0.6)):
        record = {"results": {"piqa": {"acc": accuracy}}, "n-shot": {"piqa": shots}}
        (tmp_path / f"{shots}.json").write_text(json.dumps(record | {"model_name": "small"}))
    table = jl.data.join_scores({"model": ["small"]}, tmp_path)
    assert table["acc_piqa_0shot"][0] == 0.4 and table["acc_piqa_5shot"][0] == 0.6
